//===- RankSimulation.cpp - A discrete-event model of ranks ---------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only events are beginnings of steps, at most one for each rank at a time:
// when all members of an exchange have begun, its end is known.
//
//===----------------------------------------------------------------------===//

#include "attn/Distributed/RankSimulation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <algorithm>
#include <cassert>
#include <queue>

using namespace mlir::attn;

//===----------------------------------------------------------------------===//
// Closed forms
//===----------------------------------------------------------------------===//

/// The ranks of a host, if there are `ranks` ranks.
static int64_t getHostRanks(const RankLinks &links, int64_t ranks) {
  return links.hostRanks == 0 ? ranks : std::min(links.hostRanks, ranks);
}

/// Seconds of `localBytes` for each rank from its host and, concurrently,
/// `networkBytes` from other hosts.
static double getConcurrentSeconds(const RankLinks &links, double localBytes,
                                   double networkBytes) {
  double seconds = localBytes > 0 ? links.local.getSeconds(localBytes) : 0;
  return networkBytes > 0
             ? std::max(seconds, links.network.getSeconds(networkBytes))
             : seconds;
}

double mlir::attn::getAllToAllSeconds(const RankLinks &links, int64_t ranks,
                                      double bytes) {
  int64_t hostRanks = getHostRanks(links, ranks);
  return getConcurrentSeconds(links, double(hostRanks - 1) * bytes,
                              double(ranks - hostRanks) * bytes);
}

double mlir::attn::getAllGatherSeconds(const RankLinks &links, int64_t ranks,
                                       double bytes) {
  int64_t hostRanks = getHostRanks(links, ranks);
  return getConcurrentSeconds(links, double(ranks - 1) * bytes,
                              double(ranks - hostRanks) * bytes /
                                  double(hostRanks));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void RankPrograms::addStep(int64_t rank, double seconds) {
  assert(seconds >= 0 && "a step takes no negative time");
  Step step;
  step.seconds = seconds;
  steps[rank].push_back(step);
}

void RankPrograms::addMember(int64_t rank) {
  assert(!steps[rank].empty() && "an exchange needs a step of each member");
  Step &step = steps[rank].back();
  auto number = int32_t(members.size());
  members.push_back({int32_t(rank), int32_t(steps[rank].size() - 1),
                     int32_t(exchanges.size() - 1), /*next=*/-1});
  (step.lastMember < 0 ? step.firstMember : members[step.lastMember].next) =
      number;
  step.lastMember = number;
  ++step.numMembers;
}

void RankPrograms::addMessage(int64_t from, int64_t to, double bytes) {
  assert(from != to && "a message is for another rank");
  exchanges.push_back(
      {uint32_t(members.size()), /*numMembers=*/2, /*isMessage=*/true, bytes});
  addMember(from);
  addMember(to);
}

void RankPrograms::addCollective(llvm::ArrayRef<int64_t> ranks,
                                 double seconds) {
  exchanges.push_back({uint32_t(members.size()), uint32_t(ranks.size()),
                       /*isMessage=*/false, seconds});
  for (int64_t rank : ranks)
    addMember(rank);
}

//===----------------------------------------------------------------------===//
// Simulation
//===----------------------------------------------------------------------===//

namespace mlir::attn {
class RankSimulator {
public:
  RankSimulator(const RankPrograms &programs, const RankLinks &links);

  RankTimeline run();

private:
  using Step = RankPrograms::Step;
  using Member = RankPrograms::Member;

  /// When a direction of a port becomes free, and the last message in it.
  struct Port {
    double free = 0;
    int32_t last = -1;
  };
  /// The beginning of the next step of a rank. Of several at a time, the first
  /// rank comes first.
  struct Event {
    double time;
    int64_t rank;

    bool operator>(const Event &other) const {
      return std::pair(time, rank) > std::pair(other.time, other.rank);
    }
  };
  /// The course of an exchange.
  struct Course {
    uint32_t missing = 0;
    /// When all members have begun, and the last one of them to begin.
    double ready = 0;
    int32_t lastMember = -1;
    /// When it began to travel after `before`, if it waited for a port.
    double begin = 0, end = 0;
    int32_t before = -1;
  };
  /// The present step of a rank.
  struct Present {
    int64_t step = -1;
    int32_t missing = 0;
  };

  llvm::ArrayRef<Member> getMembers(int32_t exchange) const {
    const RankPrograms::Exchange &of = programs.exchanges[exchange];
    return llvm::ArrayRef(programs.members)
        .slice(of.firstMember, of.numMembers);
  }
  void beginStep(int64_t rank, double time);
  void beginExchange(int32_t exchange);
  void sendMessage(int32_t exchange);
  void endStep(int64_t rank);
  void addTransfer(const Step &step, double begin, double end,
                   RankTimes &times);
  void findCriticalPath(RankTimeline &timeline) const;

  const RankPrograms &programs;
  const RankLinks &links;
  std::vector<Course> courses;
  std::vector<Present> present;
  /// When each step of each rank began.
  std::vector<std::vector<double>> begins;
  std::vector<RankTimes> times;
  /// Sending and receiving ports of each rank, to its host and to others.
  std::vector<Port> ports;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
};
} // namespace mlir::attn

RankSimulator::RankSimulator(const RankPrograms &programs,
                             const RankLinks &links)
    : programs(programs), links(links), courses(programs.exchanges.size()),
      present(programs.steps.size()), begins(programs.steps.size()),
      times(programs.steps.size()), ports(4 * programs.steps.size()) {
  for (auto [course, exchange] : llvm::zip_equal(courses, programs.exchanges))
    course.missing = exchange.numMembers;
  for (auto [of, begin] : llvm::zip_equal(programs.steps, begins))
    begin.reserve(of.size());
}

void RankSimulator::sendMessage(int32_t exchange) {
  Course &course = courses[exchange];
  int64_t from = getMembers(exchange)[0].rank;
  int64_t to = getMembers(exchange)[1].rank;
  const RankLink &link = links.get(from, to);
  int64_t isNetwork = links.isLocal(from, to) ? 0 : 1;
  double seconds = programs.exchanges[exchange].amount / link.bytesPerSecond;
  course.end = -1;
  for (Port *port :
       {&ports[4 * from + isNetwork], &ports[4 * to + 2 + isNetwork]}) {
    double begin = std::max(course.ready, port->free);
    if (begin + seconds > course.end) {
      course.begin = begin;
      course.end = begin + seconds;
      course.before = begin > course.ready ? port->last : -1;
    }
    *port = {begin + seconds, exchange};
  }
  course.end += link.latency;
}

void RankSimulator::beginExchange(int32_t exchange) {
  Course &course = courses[exchange];
  if (programs.exchanges[exchange].isMessage) {
    sendMessage(exchange);
  } else {
    course.begin = course.ready;
    course.end = course.ready + programs.exchanges[exchange].amount;
  }
  for (const Member &member : getMembers(exchange))
    if (--present[member.rank].missing == 0)
      endStep(member.rank);
}

void RankSimulator::beginStep(int64_t rank, double time) {
  int64_t number = ++present[rank].step;
  const Step &step = programs.steps[rank][number];
  begins[rank].push_back(time);
  times[rank].computation += step.seconds;
  // One more than the exchanges, so that the step does not end in this loop.
  present[rank].missing = step.numMembers + 1;
  for (int32_t i = step.firstMember; i >= 0; i = programs.members[i].next) {
    int32_t exchange = programs.members[i].exchange;
    Course &course = courses[exchange];
    course.ready = time;
    course.lastMember = i;
    if (--course.missing == 0)
      beginExchange(exchange);
  }
  if (--present[rank].missing == 0)
    endStep(rank);
}

/// Adds the time in which messages of a step travel, and the part of it after
/// the computation.
void RankSimulator::addTransfer(const Step &step, double computed, double end,
                                RankTimes &times) {
  llvm::SmallVector<std::pair<double, double>, 4> intervals;
  for (int32_t i = step.firstMember; i >= 0; i = programs.members[i].next) {
    const Course &course = courses[programs.members[i].exchange];
    intervals.push_back({course.ready, course.end});
  }
  llvm::sort(intervals);
  double covered = 0;
  for (auto [from, to] : intervals) {
    from = std::max(from, covered);
    if (to <= from)
      continue;
    times.transfer += to - from;
    times.exposed += std::max(0.0, to - std::max(from, computed));
    covered = to;
  }
  times.finish = end;
}

void RankSimulator::endStep(int64_t rank) {
  int64_t number = present[rank].step;
  const Step &step = programs.steps[rank][number];
  double computed = begins[rank][number] + step.seconds, end = computed;
  for (int32_t i = step.firstMember; i >= 0; i = programs.members[i].next)
    end = std::max(end, courses[programs.members[i].exchange].end);
  addTransfer(step, computed, end, times[rank]);
  if (number + 1 < int64_t(programs.steps[rank].size()))
    events.push({end, rank});
}

/// Follows, from the end of the last rank on, what ended last before each
/// computation or message could begin.
void RankSimulator::findCriticalPath(RankTimeline &timeline) const {
  auto last =
      llvm::max_element(times, [](const RankTimes &a, const RankTimes &b) {
        return a.finish < b.finish;
      });
  if (last == times.end())
    return;
  int64_t rank = last - times.begin();
  int64_t number = int64_t(programs.steps[rank].size()) - 1;
  auto add = [&](bool isComputation, int64_t rank, double begin, double end) {
    if (end > begin)
      timeline.criticalPath.push_back(
          {isComputation, rank, begin, end - begin});
  };
  while (number >= 0) {
    const Step &step = programs.steps[rank][number];
    double end = begins[rank][number] + step.seconds;
    int32_t cause = -1;
    for (int32_t i = step.firstMember; i >= 0; i = programs.members[i].next) {
      int32_t exchange = programs.members[i].exchange;
      if (courses[exchange].end > end) {
        end = courses[exchange].end;
        cause = exchange;
      }
    }
    if (cause < 0) {
      add(/*isComputation=*/true, rank, begins[rank][number], end);
      --number;
      continue;
    }
    // A message follows the ones that had its port before.
    while (true) {
      add(/*isComputation=*/false, getMembers(cause)[0].rank,
          courses[cause].begin, end);
      end = courses[cause].begin;
      if (courses[cause].before < 0)
        break;
      cause = courses[cause].before;
    }
    const Member &member = programs.members[courses[cause].lastMember];
    rank = member.rank;
    number = member.step - 1;
  }
  std::reverse(timeline.criticalPath.begin(), timeline.criticalPath.end());
}

RankTimeline RankSimulator::run() {
  for (int64_t rank = 0; rank < programs.getNumRanks(); ++rank)
    if (!programs.steps[rank].empty())
      events.push({0, rank});
  while (!events.empty()) {
    Event event = events.top();
    events.pop();
    beginStep(event.rank, event.time);
  }
  RankTimeline timeline;
  findCriticalPath(timeline);
  timeline.ranks = std::move(times);
  return timeline;
}

RankTimeline mlir::attn::simulateRanks(const RankPrograms &programs,
                                       const RankLinks &links) {
  return RankSimulator(programs, links).run();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

double RankTimeline::getSeconds() const {
  double seconds = 0;
  for (const RankTimes &times : ranks)
    seconds = std::max(seconds, times.finish);
  return seconds;
}

double RankTimeline::getCriticalComputation() const {
  double seconds = 0;
  for (const PathSegment &segment : criticalPath)
    if (segment.isComputation)
      seconds += segment.seconds;
  return seconds;
}

double RankTimeline::getHiddenShare() const {
  double transfer = 0, exposed = 0;
  for (const RankTimes &times : ranks) {
    transfer += times.transfer;
    exposed += times.exposed;
  }
  return transfer > 0 ? 1 - exposed / transfer : 1;
}

double RankTimeline::getImbalance() const {
  double sum = 0, most = 0;
  for (const RankTimes &times : ranks) {
    sum += times.computation;
    most = std::max(most, times.computation);
  }
  return sum > 0 ? most * double(ranks.size()) / sum : 1;
}
