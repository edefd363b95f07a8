/** The public SDK of Gatehouse: what a module with a handler imports. */
export { ConversionFailure } from './admission/conversion/converter.ts';
export { defineHandler } from './admission/handlers/handler.ts';
export type { Denial, DenialOptions } from './admission/handlers/errors.ts';
export { ReadError } from './admission/handlers/errors.ts';
export { runHandler, type HandlerTrial, type HandlerVerdict } from './admission/handlers/run-handler.ts';
export type { Frozen } from './admission/handlers/handler.ts';
export type {
  Converted,
  Handler,
  HandlerAnswer,
  HandlerConversion,
  HandlerDefinition,
  HandlerMatch,
  OnError,
  ReadableKind,
  UntypedObject,
  VersionConversion,
} from './admission/handlers/handler.ts';
export type {
  GetOptions,
  HandlerContext,
  HandlerLog,
  HandlerRequest,
  ListOptions,
} from './admission/handlers/handler.ts';
export { defineController } from './controllers/controller.ts';
export type {
  AppliedObject,
  Controller,
  ControllerContext,
  ControllerDefinition,
  Progress,
  ProgressRecord,
} from './controllers/controller.ts';
export type { ControllerTrial, ControllerWrite } from './controllers/memory-world.ts';
export { runController, type ControllerVerdict } from './controllers/run-controller.ts';
export {
  byLabel,
  ownersOf,
  watching,
  type ObjectRef,
  type WatchLookup,
  type WatchSource,
} from './controllers/watch-map.ts';
export type { Kinds, TypeOf } from './controllers/kinds.ts';
