/** Objects → what would become of them in a cluster that holds what was read. */
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
import { createHearing, type Hearing } from './recorder.ts';
import { refuse } from './input.ts';
import type { Kinds } from './kinds.ts';
import { type Identity, type Reviewed, outcomeOf } from './review-result.ts';
import { compilePolicies, conditionProblems, readPolicies } from './policies.ts';
import { createScene, type Scene, type SceneParts } from './snapshot.ts';

/** One write to be judged. */
export interface ReviewRequest {
  readonly place: Place | undefined;
  /** As it is to be; on DELETE: as it is. */
  readonly object: JsonObject;
  /** As it is, for an UPDATE. */
  readonly old: JsonObject | undefined;
  readonly operation: Exclude<Operation, 'CONNECT'>;
  readonly user: UserInfo;
}

export interface Reviewer {
  /** All of them are there for each other. */
  readonly review: (requests: readonly ReviewRequest[]) => Promise<readonly Reviewed[]>;
  /** What the user should know was assumed. */
  readonly notes: readonly string[];
  /** How many policies and handlers there are to ask. */
  readonly judges: number;
}

export interface ReviewerParts extends SceneParts {
  readonly handlers: readonly LoadedHandler[];
  readonly logFor: (handler: string) => HandlerLog;
  /** The namespace in which Gatehouse runs, which no policy governs. */
  readonly ownNamespace: string;
  readonly now: Date;
}

/** Nobody connects to it. */
const SERVICE = { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 };

/** @throws UnusableInput and InvalidHandlers with everything that is wrong with definitions, policies and handlers */
export function createReviewer(parts: ReviewerParts): Reviewer {
  const { existing, reviewed, ownNamespace, now, logFor } = parts;
  const scene = createScene(parts);
  const environment = { ownNamespace, matchConditions: true };
  const read = readPolicies([...existing, ...reviewed], scene.kinds.registry);
  const { resolve, schemas } = scene.kinds;
  const policies = compilePolicies(read, { ...environment, resolve, schemas });
  const handlers = compileHandlers(parts.handlers, environment);
  const converters = readConverters([...existing, ...reviewed], handlers, scene.kinds, scene.storage);
  refuse([
    ...policies.flatMap(({ name, match }) =>
      conditionProblems(`AdmissionPolicy ${name}: spec.match`, match.matchConditions),
    ),
    ...handlers.flatMap(({ name, match }) =>
      conditionProblems(`handler ${name}: match`, match.matchConditions),
    ),
  ]);
  const target = { ...environment, service: SERVICE, caBundle: '' };
  const bench: Bench = {
    scene,
    now,
    api: createApiServer({
      registry: scene.kinds.registry,
      storage: scene.storage,
      convert: createConversion(scene.storage, converters),
      webhooks: webhookConfigurations(policies, target, handlers),
    }),
    callFor: createCalls({ policies, handlers, now, logFor }),
  };
  return {
    review: (requests) => reviewAll(bench, requests),
    notes: scene.notes,
    judges: policies.length + handlers.length,
  };
}

interface Bench {
  readonly scene: Scene;
  readonly api: ApiServer;
  readonly callFor: CallFor;
  readonly now: Date;
}

/** First all are changed, then all are judged: each sees the others as they will be. */
async function reviewAll(bench: Bench, requests: readonly ReviewRequest[]): Promise<readonly Reviewed[]> {
  const contents = createContents(bench.scene.contents);
  const cases: Case[] = [];
  for (const request of requests) cases.push(await open(bench, request));
  for (const { write } of cases) put(contents, write, write?.object ?? write?.old);
  const mutated: MutatedCase[] = [];
  for (const each of cases) mutated.push(await mutateCase(bench, each, known(contents)));
  for (const { write, result } of mutated) put(contents, write, result?.prepared);
  const settled = known(contents);
  const reviewed: Reviewed[] = [];
  for (const each of mutated) {
    const { request, write, hearing, result } = each;
    const failure = each.failure ?? (await validateCase(bench, each, settled));
    reviewed.push({
      identity: identityOf(each),
      place: request.place,
      operation: request.operation,
      outcome: outcomeOf(hearing.said(), failure, { before: write?.object, result }),
    });
  }
  return reviewed;
}

/** One write and what is said of it. */
interface Case {
  readonly request: ReviewRequest;
  readonly hearing: Hearing;
  /** Undefined when it is no object that could be written. */
  readonly write: Write | undefined;
  /** What ended it. */
  readonly failure: ApiFailure | undefined;
}

interface MutatedCase extends Case {
  readonly result: Mutated | undefined;
}

async function open({ scene, api }: Bench, request: ReviewRequest): Promise<Case> {
  const { object, old, operation, user } = request;
  const hearing = createHearing();
  const { kinds, decode } = scene;
  try {
    const type = typeFor(object, kinds);
    const decoded = decode(object, type, hearing.warn);
    const before =
      old === undefined ? undefined : await api.inVersion(decode(old, typeFor(old, kinds), ignore), type);
    const write: Write =
      operation === 'DELETE'
        ? { type, operation, user, object: undefined, old: decoded }
        : { type, operation, user, object: decoded, old: before };
    return { request, hearing, write, failure: undefined };
  } catch (error) {
    return { request, hearing, write: undefined, failure: failureOf(error) };
  }
}

const ignore = () => undefined;

/** @throws ApiFailure when nobody serves it */
function typeFor(object: JsonObject, { typeOf }: Pick<Kinds, 'typeOf'>): ResourceType {
  const type = typeOf(object);
  if (typeof type === 'string') throw new ApiFailure(404, 'NotFound', type);
  return type;
}

function put(contents: Contents, write: Write | undefined, object: Write['object']): void {
  if (write === undefined || object?.metadata.name === undefined) return;
  contents.put({ ref: refOf(write.type, object), object });
}

/** What there is, and what follows of it for the policies. */
interface Known {
  readonly contents: Contents;
  readonly governed: GovernedIndex;
}

const known = (contents: Contents): Known => ({ contents, governed: indexGoverned(contents) });

async function mutateCase(bench: Bench, each: Case, there: Known): Promise<MutatedCase> {
  const { write, hearing } = each;
  if (write === undefined) return { ...each, result: undefined };
  try {
    const call = bench.callFor(viewOf(bench, write, there), hearing);
    return { ...each, result: await bench.api.mutate(write, call) };
  } catch (error) {
    return { ...each, result: undefined, failure: failureOf(error) };
  }
}

async function validateCase(
  bench: Bench,
  { write, hearing, result }: MutatedCase,
  there: Known,
): Promise<ApiFailure | undefined> {
  if (write === undefined) return undefined;
  try {
    const call = bench.callFor(viewOf(bench, write, there), hearing);
    await bench.api.validate(write, result?.prepared, call);
    return undefined;
  } catch (error) {
    return failureOf(error);
  }
}

/** While an object is written, it is as it was before; what is created is not there yet. */
function viewOf({ scene, now }: Bench, write: Write, { contents, governed }: Known): View {
  const subject = write.object ?? write.old;
  const seen =
    subject === undefined
      ? contents
      : contentsBefore(contents, { ref: refOf(write.type, subject), object: write.old });
  return { world: worldOf(seen, governed, now), handlerWorld: handlerWorldOf(seen, scene.kinds.resolve) };
}

/** @throws what is no answer of the API server: a fault of ours */
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
