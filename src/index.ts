/** The public SDK of Gatehouse: what a module with a handler imports. */
import type { runHandler as RunHandler } from './admission/handlers/run-handler.ts';
import type { runController as RunController } from './controllers/run-controller.ts';

export { ConversionFailure } from './admission/conversion/converter.ts';
export { defineHandler } from './admission/handlers/handler.ts';
export type { Denial, DenialOptions } from './admission/handlers/errors.ts';
export { ReadError } from './admission/handlers/errors.ts';
export type { HandlerTrial, HandlerVerdict } from './admission/handlers/run-handler.ts';
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
export { defineKind, type Kind, type KindDefinition, type ObjectOfKind } from './controllers/define-kind.ts';
export type { ControllerTrial, ControllerWrite } from './controllers/trial.ts';
export type { ControllerVerdict } from './controllers/run-controller.ts';
export {
  byLabel,
  ownersOf,
  watching,
  type ObjectRef,
  type WatchLookup,
  type WatchSource,
} from './controllers/watch-map.ts';
// `declare module` can only extend an interface that `export *` exports.
export type * from './controllers/kinds.ts';
export type { ObjectMeta } from './json/kube-object.ts';

// Loaded on the first call: what only tests need takes ten times as long to load as the rest.
/** Runs a handler without a cluster, for the author's tests. */
export const runHandler: typeof RunHandler = async (...given) =>
  (await import('./admission/handlers/run-handler.ts')).runHandler(...given);

/** Runs one pass of a controller without a cluster, for the author's tests. */
export const runController: typeof RunController = async (...given) =>
  (await import('./controllers/run-controller.ts')).runController(...given);
