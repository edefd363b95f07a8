/** Reviews writes as the API server would process them in the snapshot. */
import type { HandlerLog } from '../../admission/handlers/handler.ts';
import type { JsonObject } from '../../json/json.ts';
import { ApiFailure } from '../../sandbox/machinery/failure.ts';
import type { ResourceType } from '../../sandbox/machinery/resource-type.ts';
import type { Operation, UserInfo } from '../../admission/review/request.ts';
import { webhookConfigurations } from '../../admission/webhooks/webhook-configurations.ts';
import type { GovernedIndex } from '../../admission/policy/world.ts';
import { compileHandlers, type LoadedHandler } from '../../runtime/handlers/load-handlers.ts';
import { createApiServer, refOf, type ApiServer, type Mutated, type Write } from './api-server.ts';
import { createCalls, type CallFor, type View } from './webhook-calls.ts';
import { createConversion, readConverters } from './conversions.ts';
import { metaTextOf, textOf, type Place } from './documents.ts';
import {
  indexGoverned,
  contentsBefore,
  createContents,
  handlerWorldOf,
  worldOf,
  type Contents,
} from './world.ts';
import { createRecorder, type Recorder } from './recorder.ts';
import { refuse } from './input.ts';
import type { Kinds } from './kinds.ts';
import { type Identity, type ReviewedObject, toReviewResult } from './review-result.ts';
import { compilePolicies, conditionProblems, readPolicies } from './policies.ts';
import { createSnapshot, type Snapshot, type SnapshotParts } from './snapshot.ts';

export interface ReviewRequest {
  readonly place: Place | undefined;
  /** The new object; on DELETE the current one. */
  readonly object: JsonObject;
  /** The current object, for an UPDATE. */
  readonly old: JsonObject | undefined;
  readonly operation: Exclude<Operation, 'CONNECT'>;
  readonly user: UserInfo;
}

export interface Reviewer {
  /** The objects of one call can refer to each other. */
  readonly review: (requests: readonly ReviewRequest[]) => Promise<readonly ReviewedObject[]>;
  /** Assumptions of the review. */
  readonly notes: readonly string[];
  /** The number of policies and handlers. */
  readonly judges: number;
}

export interface ReviewerParts extends SnapshotParts {
  readonly handlers: readonly LoadedHandler[];
  readonly logFor: (handler: string) => HandlerLog;
  /** The namespace of Gatehouse, which no policy governs. */
  readonly ownNamespace: string;
  readonly now: Date;
}

/** A placeholder: no connection is made. */
const SERVICE = { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 };

/** @throws UnusableInput and InvalidHandlers with all problems of CRDs, policies and handlers */
export function createReviewer(parts: ReviewerParts): Reviewer {
  const { existing, reviewed, ownNamespace, now, logFor } = parts;
  const snapshot = createSnapshot(parts);
  const environment = { ownNamespace, matchConditions: true };
  const read = readPolicies([...existing, ...reviewed], snapshot.kinds.registry);
  const { resolve, schemas } = snapshot.kinds;
  const policies = compilePolicies(read, { ...environment, resolve, schemas });
  const handlers = compileHandlers(parts.handlers, environment);
  const converters = readConverters([...existing, ...reviewed], handlers, snapshot.kinds, snapshot.storage);
  refuse([
    ...policies.flatMap(({ name, match }) =>
      conditionProblems(`AdmissionPolicy ${name}: spec.match`, match.matchConditions),
    ),
    ...handlers.flatMap(({ name, match }) =>
      conditionProblems(`handler ${name}: match`, match.matchConditions),
    ),
  ]);
  const target = { ...environment, service: SERVICE, caBundle: '' };
  const env: ReviewEnvironment = {
    snapshot,
    now,
    api: createApiServer({
      registry: snapshot.kinds.registry,
      storage: snapshot.storage,
      convert: createConversion(snapshot.storage, converters),
      webhooks: webhookConfigurations(policies, target, handlers),
    }),
    callFor: createCalls({ policies, handlers, now, logFor }),
  };
  return {
    review: (requests) => reviewAll(env, requests),
    notes: snapshot.notes,
    judges: policies.length + handlers.length,
  };
}

interface ReviewEnvironment {
  readonly snapshot: Snapshot;
  readonly api: ApiServer;
  readonly callFor: CallFor;
  readonly now: Date;
}

/** Mutates all objects before it validates any, so that each object sees the final state of the others. */
async function reviewAll(
  env: ReviewEnvironment,
  requests: readonly ReviewRequest[],
): Promise<readonly ReviewedObject[]> {
  const contents = createContents(env.snapshot.contents);
  const cases: Case[] = [];
  for (const request of requests) cases.push(await open(env, request));
  for (const { write } of cases) put(contents, write, write?.object ?? write?.old);
  const mutated: MutatedCase[] = [];
  for (const each of cases) mutated.push(await mutateCase(env, each, known(contents)));
  for (const { write, result } of mutated) put(contents, write, result?.prepared);
  const settled = known(contents);
  const reviewed: ReviewedObject[] = [];
  for (const each of mutated) {
    const { request, write, recorder, result } = each;
    const failure = each.failure ?? (await validateCase(env, each, settled));
    reviewed.push({
      identity: identityOf(each),
      place: request.place,
      operation: request.operation,
      result: toReviewResult(recorder.recorded(), failure, { before: write?.object, result }),
    });
  }
  return reviewed;
}

/** One write and its recorded decisions. */
interface Case {
  readonly request: ReviewRequest;
  readonly recorder: Recorder;
  /** Undefined if the object cannot be decoded. */
  readonly write: Write | undefined;
  /** The error of the API server. */
  readonly failure: ApiFailure | undefined;
}

interface MutatedCase extends Case {
  readonly result: Mutated | undefined;
}

async function open({ snapshot, api }: ReviewEnvironment, request: ReviewRequest): Promise<Case> {
  const { object, old, operation, user } = request;
  const recorder = createRecorder();
  const { kinds, decode } = snapshot;
  try {
    const type = typeFor(object, kinds);
    const decoded = decode(object, type, recorder.warn);
    const before =
      old === undefined ? undefined : await api.inVersion(decode(old, typeFor(old, kinds), ignore), type);
    const write: Write =
      operation === 'DELETE'
        ? { type, operation, user, object: undefined, old: decoded }
        : { type, operation, user, object: decoded, old: before };
    return { request, recorder, write, failure: undefined };
  } catch (error) {
    return { request, recorder, write: undefined, failure: failureOf(error) };
  }
}

const ignore = () => undefined;

/** @throws ApiFailure when the kind is not served */
function typeFor(object: JsonObject, { typeOf }: Pick<Kinds, 'typeOf'>): ResourceType {
  const type = typeOf(object);
  if (typeof type === 'string') throw new ApiFailure(404, 'NotFound', type);
  return type;
}

function put(contents: Contents, write: Write | undefined, object: Write['object']): void {
  if (write === undefined || object?.metadata.name === undefined) return;
  contents.put({ ref: refOf(write.type, object), object });
}

/** The objects, and the index of their references and unique values. */
interface Known {
  readonly contents: Contents;
  readonly governed: GovernedIndex;
}

const known = (contents: Contents): Known => ({ contents, governed: indexGoverned(contents) });

async function mutateCase(env: ReviewEnvironment, each: Case, there: Known): Promise<MutatedCase> {
  const { write, recorder } = each;
  if (write === undefined) return { ...each, result: undefined };
  try {
    const call = env.callFor(viewOf(env, write, there), recorder);
    return { ...each, result: await env.api.mutate(write, call) };
  } catch (error) {
    return { ...each, result: undefined, failure: failureOf(error) };
  }
}

async function validateCase(
  env: ReviewEnvironment,
  { write, recorder, result }: MutatedCase,
  there: Known,
): Promise<ApiFailure | undefined> {
  if (write === undefined) return undefined;
  try {
    const call = env.callFor(viewOf(env, write, there), recorder);
    await env.api.validate(write, result?.prepared, call);
    return undefined;
  } catch (error) {
    return failureOf(error);
  }
}

/** Admission sees the old state of the written object; a new object does not exist yet. */
function viewOf({ snapshot, now }: ReviewEnvironment, write: Write, { contents, governed }: Known): View {
  const subject = write.object ?? write.old;
  const seen =
    subject === undefined
      ? contents
      : contentsBefore(contents, { ref: refOf(write.type, subject), object: write.old });
  return { world: worldOf(seen, governed, now), handlerWorld: handlerWorldOf(seen, snapshot.kinds.resolve) };
}

/** Rethrows errors that are not responses of the API server. */
function failureOf(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  throw error;
}

function identityOf({ write, request: { object } }: Case): Identity {
  const given = (key: string) => metaTextOf(object, key);
  const known = (write?.object ?? write?.old)?.metadata;
  const namespace = known === undefined ? given('namespace') : (known.namespace ?? '');
  const generated = given('generateName');
  return {
    apiVersion: textOf(object, 'apiVersion'),
    kind: textOf(object, 'kind'),
    ...(namespace === '' ? {} : { namespace }),
    name: given('name') || (generated === '' ? '' : `${generated}…`),
  };
}
