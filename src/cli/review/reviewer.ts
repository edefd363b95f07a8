/** Reviews writes as the API server would process them in the snapshot. */
import { textIn, type JsonObject } from '../../json/json.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import type { UserInfo } from '../../admission/review/request.ts';
import { SILENT, type Mutated, type Write } from './api-server.ts';
import { refOf } from '../../json/kube-object.ts';
import type { Place } from './input.ts';
import {
  createGovernedIndex,
  createContents,
  handlerWorldOf,
  worldOf,
  type Contents,
  type SnapshotInput,
} from './snapshot.ts';
import type { Kinds } from './kinds.ts';
import { createRecording, toReviewResult, type Identity, type Recording } from './review-result.ts';
import { questionNotes, coverageNotes, uncheckedNotes } from './policies.ts';
import { createStage, type ReviewContext, type Stage } from './stage.ts';

export interface ReviewRequest {
  readonly place: Place;
  readonly object: JsonObject;
  readonly old: JsonObject | undefined;
  readonly operation: Write['operation'];
  readonly user: UserInfo;
}

export function createReviewer(input: SnapshotInput, context: ReviewContext) {
  const stage = createStage(input, context);
  const { snapshot, policies, handlers } = stage;
  return {
    review: (requests: readonly ReviewRequest[]) => reviewAll(stage, requests),
    notes: [...snapshot.notes, ...coverageNotes(policies), ...questionNotes(policies)],
    policies: policies.map(({ name }) => name),
    handlers: handlers.map(({ name }) => name),
    /** Kinds whose fields are unknown, so that paths and expressions of policies are not checked against them. */
    unchecked: uncheckedNotes(policies, snapshot.kinds),
    isEmpty: policies.length + handlers.length === 0,
  };
}

/** One write and its recorded decisions. Each phase of the review fills in a field. */
interface Case {
  readonly request: ReviewRequest;
  readonly record: Recording;
  write?: Write;
  result?: Mutated | undefined;
  failure?: ApiFailure;
}

export type ReviewedObject = Awaited<ReturnType<typeof reviewAll>>[number];

/** Mutates all objects before it validates any, so that each object sees the final state of the others. */
async function reviewAll(stage: Stage, requests: readonly ReviewRequest[]) {
  const contents = createContents(stage.snapshot.contents);
  const cases = requests.map((request): Case => ({ request, record: createRecording() }));
  await eachCase(cases, async (one) => {
    one.write = await writeOf(stage, one);
  });
  for (const { write } of cases) put(contents, write, write?.object ?? write?.old);
  const callAs = callsIn(stage, contents);
  await eachCase(cases, async (one) => {
    if (one.write !== undefined)
      one.result = await stage.api.mutate(one.write, callAs(one.write, one.record));
  });
  for (const { write, result } of cases) put(contents, write, result?.prepared);
  const callFinally = callsIn(stage, contents);
  await eachCase(cases, async ({ write, result, record }) => {
    if (write !== undefined) await stage.api.validate(write, result?.prepared, callFinally(write, record));
  });
  return cases.map((one) => ({
    identity: identityOf(one),
    place: one.request.place,
    operation: one.request.operation,
    result: toReviewResult(one.record, one.failure, one.write?.object, one.result),
  }));
}

async function eachCase(cases: readonly Case[], phase: (one: Case) => Promise<void>): Promise<void> {
  for (const one of cases) {
    if (one.failure !== undefined) continue;
    try {
      await phase(one);
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error;
      one.failure = error;
    }
  }
}

async function writeOf({ snapshot, api }: Stage, { request, record }: Case): Promise<Write> {
  const { object, old, operation, user } = request;
  const { kinds, decode } = snapshot;
  const type = typeFor(object, kinds);
  const decoded = decode(object, type, (text) => record.warnings.add(text));
  const before =
    old === undefined ? undefined : await api.inVersion(decode(old, typeFor(old, kinds), SILENT.warn), type);
  return operation === 'DELETE'
    ? { type, operation, user, object: undefined, old: decoded }
    : { type, operation, user, object: decoded, old: before };
}

function typeFor(object: JsonObject, { typeOf }: Pick<Kinds, 'typeOf'>): ResourceType {
  const type = typeOf(object);
  if (typeof type === 'string') throw new ApiFailure(404, 'NotFound', type);
  return type;
}

function put(contents: Contents, write: Write | undefined, object: Write['object']): void {
  if (write === undefined || object?.metadata.name === undefined) return;
  contents.put(refOf(write.type, object), object);
}

/** Admission sees the old state of the written object; a new object does not exist yet. */
function callsIn({ snapshot, policies, calls, now }: Stage, contents: Contents) {
  const governed = createGovernedIndex(policies, contents);
  return (write: Write, record: Recording) => {
    const seen = createContents(contents);
    const subject = write.object ?? write.old;
    if (subject !== undefined) seen.put(refOf(write.type, subject), write.old);
    const handlerWorld = handlerWorldOf(seen, snapshot.kinds.resolve);
    return calls({ world: worldOf(seen, governed, now), handlerWorld }, record);
  };
}

function identityOf({ write, request: { object } }: Case): Identity {
  const given = (key: string) => textIn(object, 'metadata', key);
  const known = (write?.object ?? write?.old)?.metadata;
  const namespace = known === undefined ? given('namespace') : (known.namespace ?? '');
  const generated = given('generateName');
  return {
    apiVersion: textIn(object, 'apiVersion'),
    kind: textIn(object, 'kind'),
    namespace: namespace === '' ? undefined : namespace,
    name: given('name') || (generated === '' ? '' : `${generated}…`),
  };
}
