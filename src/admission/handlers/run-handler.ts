/** Runs a handler without a cluster, for the author's tests. */
import type { Cause } from '../review/decision.ts';
import { textIn, type JsonObject } from '../../json/json.ts';
import { splitApiVersion } from '../../json/kube-object.ts';
import type { PatchOperation } from '../../json/json-patch.ts';
import { diff } from '../../json/json-diff.ts';
import {
  toAdmissionRequest,
  writes,
  type AdmissionRequest,
  type Operation,
  type UserInfo,
} from '../review/request.ts';
import { splitResource } from '../policy/match/resource-pattern.ts';
import { callHandler } from './call-handler.ts';
import type { HandlerCall, HandlerOutcome } from './handler-decision.ts';
import { compileHandler, type CompiledHandler } from './compile-handler.ts';
import { copyJson } from './draft.ts';
import type { Handler } from './handler.ts';
import { worldOf } from './handler-world.ts';

/** The request to try a handler with. */
export interface HandlerTrial {
  /** The object of the request. Absent on DELETE. */
  readonly object?: object;
  /** The stored object. Absent on CREATE. */
  readonly oldObject?: object;
  /** Default: UPDATE with both objects, CREATE with the new one, DELETE with the old one. */
  readonly operation?: Operation;
  /** Default: the first in `match.resources`. */
  readonly resource?: string;
  /** The user who makes the request. Default: `user`. */
  readonly user?: Partial<UserInfo>;
  readonly dryRun?: boolean;
  /** The objects that `get` and `list` return, by kind as in `reads`: `{ 'datacenters.infra.example.com': [muc1] }`. */
  readonly cluster?: Readonly<Record<string, readonly object[]>>;
  /** Aborts the wait for the handler. */
  readonly signal?: AbortSignal;
}

/** The response to the API server. */
export interface HandlerVerdict {
  readonly allowed: boolean;
  /** The message of the refusal; undefined if the request is allowed. */
  readonly message: string | undefined;
  /** The HTTP status of the refusal. */
  readonly code: number | undefined;
  readonly reason: string | undefined;
  readonly causes: readonly Cause[];
  readonly warnings: readonly string[];
  readonly auditAnnotations: Readonly<Record<string, string>>;
  /** The object after `mutate`, or unchanged if the request is refused. Undefined on DELETE. */
  readonly object: JsonObject | undefined;
  readonly patch: readonly PatchOperation[];
}

/**
 * Runs `mutate`, then `validate` on the result, the way Gatehouse does, against a cluster with a few objects.
 * @throws the error of the handler, regardless of `onError`. Also throws an Error if the handler is invalid, if `mutate`
 * is not idempotent, or if the API server would not send such a request.
 */
export async function runHandler(handler: Handler<never>, trial: HandlerTrial): Promise<HandlerVerdict> {
  const environment = { ownNamespace: 'gatehouse-system' };
  const compiled = compileHandler(handler.name ?? 'handler', handler, environment);
  if (compiled.kind === 'rejected') throw new Error(compiled.problems.join('; '));
  const request = toRequest(compiled.handler, trial);
  const call = {
    handler: compiled.handler,
    request,
    world: worldOf(trial.cluster ?? {}),
    signal: trial.signal ?? new AbortController().signal,
    log: SILENT,
  };
  const mutated = await decided({ ...call, phase: 'mutate' });
  if (mutated.decision.kind === 'deny') return toVerdict(request, mutated, []);
  await assertStable({ ...call, phase: 'mutate' }, mutated);
  const { object } = mutated;
  const judged = await decided({ ...call, phase: 'validate', ...(object === undefined ? {} : { object }) });
  return toVerdict(request, judged, [mutated]);
}

const silent = () => undefined;
const SILENT = { debug: silent, info: silent, warn: silent, error: silent };

/** @throws the error of the handler */
async function decided(call: HandlerCall): Promise<HandlerOutcome> {
  const outcome = await callHandler(call);
  if (outcome.failure !== undefined) throw outcome.failure.cause;
  return outcome;
}

async function assertStable(call: HandlerCall, { object }: HandlerOutcome): Promise<void> {
  if (object === undefined || object === call.request.object) return;
  const again = await decided({ ...call, object });
  const changed = again.object === undefined ? [] : diff(object, again.object);
  if (changed.length === 0) return;
  throw new Error(
    `mutate is not idempotent, and the API server may call it twice: a second run changes ${changed.map(({ path }) => path).join(', ')}`,
  );
}

function toRequest({ match }: CompiledHandler, trial: HandlerTrial): AdmissionRequest {
  const object = trial.object === undefined ? undefined : copyJson(trial.object);
  const oldObject = trial.oldObject === undefined ? undefined : copyJson(trial.oldObject);
  const subject = object ?? oldObject;
  if (subject === undefined) throw new Error('object or oldObject is required');
  const written = oldObject === undefined ? 'CREATE' : 'UPDATE';
  const operation = trial.operation ?? (object === undefined ? 'DELETE' : written);
  if (!match.operations.includes(operation))
    throw new Error(
      `the API server does not send ${operation} requests: match.operations has ${match.operations.join(', ')}`,
    );
  const { resource, subResource } = splitResource(trial.resource ?? match.resources[0] ?? '');
  const { group, version } = splitApiVersion(textIn(subject, 'apiVersion'));
  return toAdmissionRequest({
    uid: '00000000-0000-4000-8000-000000000000',
    kind: { group, version, kind: textIn(subject, 'kind') || 'Unknown' },
    resource: { group, version, resource },
    subResource,
    namespace: textIn(subject, 'metadata', 'namespace'),
    operation,
    userInfo: { username: 'user', groups: ['system:authenticated'], ...copyJson(trial.user ?? {}) },
    object: writes(operation) || operation === 'CONNECT' ? (object ?? null) : null,
    oldObject: oldObject ?? null,
    dryRun: trial.dryRun === true,
    options: null,
  });
}

function toVerdict(
  { object: sent }: AdmissionRequest,
  last: HandlerOutcome,
  before: readonly HandlerOutcome[],
): HandlerVerdict {
  const decisions = [...before, last].flatMap(({ decision }) =>
    decision.kind === 'allow' || decision.kind === 'deny' ? [decision] : [],
  );
  const denial = decisions.find((decision) => decision.kind === 'deny');
  const object = denial === undefined ? last.object : sent;
  return {
    allowed: denial === undefined,
    message: denial?.message,
    code: denial?.code,
    reason: denial?.reason,
    causes: denial?.causes ?? [],
    warnings: decisions.flatMap(({ warnings }) => warnings),
    auditAnnotations: Object.fromEntries(
      decisions.flatMap(({ auditAnnotations }) => Object.entries(auditAnnotations)),
    ),
    object,
    patch: sent === undefined || object === undefined ? [] : diff(sent, object),
  };
}
