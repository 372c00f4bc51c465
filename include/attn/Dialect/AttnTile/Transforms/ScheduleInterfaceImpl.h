//===- ScheduleInterfaceImpl.h - Strategies of schedules --------*- C++ -*-===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Registration of the schedules' ScheduleAttrInterface. It depends on passes,
// so it cannot be in the library of the attributes.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_DIALECT_ATTNTILE_TRANSFORMS_SCHEDULEINTERFACEIMPL_H
#define ATTN_DIALECT_ATTNTILE_TRANSFORMS_SCHEDULEINTERFACEIMPL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::attn_tile {

/// Attaches ScheduleAttrInterface to the schedules of the dialect.
void registerScheduleInterfaceExternalModels(DialectRegistry &registry);

} // namespace mlir::attn_tile

#endif // ATTN_DIALECT_ATTNTILE_TRANSFORMS_SCHEDULEINTERFACEIMPL_H
