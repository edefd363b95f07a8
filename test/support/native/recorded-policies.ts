/** Cases of admission policies that were recorded from kube-apiserver 1.37, replayed in a sandbox. */
import { isDeepStrictEqual } from 'node:util';

import { warningsIn, type RawAnswer } from '../transport.ts';
import { eventually } from '../processes.ts';
import {
  isBinding,
  readRecorded,
  setUp,
  startRecorded,
  type Manifest,
  type RecordedRequest,
  type RecordedUser,
  type Send,
  type Setup,
} from '../recorded-requests.ts';

interface Status {
  readonly generation: number;
  readonly status: { readonly observedGeneration?: number };
}

export interface Recorded {
  readonly name: string;
  readonly setup: Setup;
  readonly user: RecordedUser | null;
  readonly request: RecordedRequest;
  readonly response: Answer;
  /** None if the API server crashed. */
  readonly audit: Readonly<Record<string, string>> | null;
  readonly status?: Status;
  readonly change?: readonly RecordedRequest[];
  readonly followUp?: readonly { readonly request: RecordedRequest; readonly response: Answer }[];
  /** A real API server applies policies and bindings in an order that differs between equal setups. */
  readonly orderVaries?: true;
  readonly spread?: Readonly<Record<string, number>>;
}

/** `npm run record` replaces its answers. */
export const POLICIES = 'policies-1.37.jsonl';

export const recordedPolicies = (): readonly Recorded[] => readRecorded(POLICIES) as readonly Recorded[]; // our own file

type Seen = ReturnType<typeof recordedIn>;

export const recordedIn = ({ response, audit, followUp = [], status }: Recorded) => ({
  answer: comparable(response),
  audit: ownAudit(audit ?? {}),
  followUp: followUp.map((one) => comparable(one.response)),
  status: status ?? null,
});

async function replay(recorded: Recorded): Promise<Seen> {
  const { setup, response, change = [], request, user, followUp = [], status } = recorded;
  const { send, events } = await startRecorded();
  await setUp(send, setup);
  for (const one of change) await send(one);
  const answer = comparable(likeIn(response, answerOf(await send(request, user ?? undefined))));
  const audit = ownAudit(events.at(-1)?.annotations ?? {});
  const later: unknown[] = [];
  for (const one of followUp) {
    const read = likeIn(one.response, answerOf(await send(one.request)));
    later.push(comparable(one.response.items === undefined ? read : namesIn(read)));
  }
  const ended = status === undefined ? null : await settled(send, status);
  return { answer, audit, followUp: later, status: ended };
}

/** The answer as recorded, under any order of the bindings if the order varies; else the answer in the usual order. */
export async function replayInAnyOrder(recorded: Recorded): Promise<Seen> {
  const expected = recordedIn(recorded);
  const usual = await replay(recorded);
  if (recorded.orderVaries !== true || isDeepStrictEqual(usual, expected)) return usual;
  for (const seen of await replayInAllOrders(recorded)) if (isDeepStrictEqual(seen, expected)) return seen;
  return usual;
}

/** The sandbox applies bindings by name, so other names give another order. */
async function replayInAllOrders(recorded: Recorded): Promise<readonly Seen[]> {
  const names = recorded.setup.flatMap((one) => (isBinding(one) ? [one.metadata.name] : []));
  const all: Seen[] = [];
  for (const order of permutations(names)) {
    const setup = recorded.setup.map((one) => {
      if (!isBinding(one)) return one;
      const { name } = one.metadata;
      return { ...one, metadata: { ...one.metadata, name: `o${order.indexOf(name)}-${name}` } };
    });
    const seen = await replay({ ...recorded, setup });
    all.push(JSON.parse(JSON.stringify(seen).replaceAll(/\bo\d-/g, '')) as Seen);
  }
  return all;
}

const permutations = (names: readonly string[]): readonly (readonly string[])[] =>
  names.length < 2
    ? [names]
    : names.flatMap((first) =>
        permutations(names.filter((one) => one !== first)).map((rest) => [first, ...rest]),
      );

export function answerOf(answer: RawAnswer): Answer {
  const { status, text } = answer;
  const warnings = warningsIn(answer);
  const body = JSON.parse(text) as Answer;
  if (status < 400) return { code: status, object: body, warnings };
  const { reason, message, details } = body;
  return { code: status, reason, message, details, warnings };
}

/** The recording has managed fields where they matter. */
export function likeIn({ object: recorded }: Answer, { object, ...answer }: Answer): Answer {
  if (object === undefined || hasManagers(recorded)) return { ...answer, object };
  const { metadata, ...rest } = object as { readonly metadata: object };
  return { ...answer, object: { ...rest, metadata: { ...metadata, managedFields: undefined } } };
}

const hasManagers = (object: unknown): boolean =>
  (object as { readonly metadata?: { readonly managedFields?: unknown } } | undefined)?.metadata
    ?.managedFields !== undefined;

export function namesIn({ code, object }: Answer): Answer {
  const { items } = object as { readonly items: readonly Manifest[] };
  return { code, items: items.map(({ metadata }) => metadata.name) };
}

/** Without the annotations of authorization and of pod security, which is not about these policies. */
const ownAudit = (annotations: Readonly<Record<string, string>>) =>
  Object.fromEntries(
    Object.entries(annotations).filter(
      ([key]) => !/^(authorization\.k8s|pod-security\.kubernetes)\.io\//.test(key),
    ),
  );

const GUARD = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/guard';

export async function settled(send: Send, expected: Status): Promise<Status> {
  const read = async (): Promise<Status> => {
    const { metadata, status } = JSON.parse((await send({ method: 'GET', path: GUARD })).text) as {
      readonly metadata: Pick<Status, 'generation'>;
      readonly status: Status['status'];
    };
    return { generation: metadata.generation, status };
  };
  await eventually(
    'the status',
    async () => (await read()).status.observedGeneration === expected.status.observedGeneration,
    { timeoutMs: 30_000, everyMs: 10 },
  );
  return await read();
}

export interface Answer {
  readonly code: number;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly details?: object | undefined;
  readonly warnings?: readonly string[];
  readonly object?: unknown;
  readonly items?: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;

/** The answer without what differs at each run, what other plugins set, and the words of compile errors. */
function comparable({ object, ...answer }: Answer): unknown {
  const told =
    answer.code < 400 && object !== undefined ? { ...answer, object: stable(object as Fields) } : answer;
  return JSON.parse(JSON.stringify(told), (_key, value: unknown) =>
    typeof value === 'string' ? stableText(value) : value,
  ) as unknown;
}

/** An error ends at the next field, or at the end of the list. */
const stableText = (text: string): string =>
  text
    .replaceAll(/compilation failed: [^]*?(?=, spec\.|\]?$)/g, 'compilation failed')
    .replaceAll(/\bgen-\w{5}\b/g, 'gen-')
    .replaceAll(/in scheme "[^"]*"/g, 'in scheme'); // a path that depends on how the API server was built

const OF_THE_RUN = 'uid resourceVersion creationTimestamp deletionTimestamp lastTransitionTime time'.split(
  ' ',
);

function stable(given: Fields): Fields {
  const object = Object.fromEntries(
    Object.entries(given)
      .filter(([key]) => !OF_THE_RUN.includes(key))
      .map(([key, value]) => [key, stableValue(value)]),
  );
  const { name, generateName } = object;
  if (typeof generateName === 'string' && String(name).startsWith(generateName)) delete object.name;
  return object.kind === 'Pod' ? { ...object, spec: withoutPodPlugins(object.spec as Fields) } : object;
}

function stableValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(stableValue);
  return typeof value === 'object' && value !== null ? stable(value as Fields) : value;
}

const OF_OTHER_PLUGINS = ['enableServiceLinks', 'preemptionPolicy', 'priority'];

/** The spec without what other admission plugins and defaults of a real server set in Pods. */
function withoutPodPlugins({ tolerations = [], ...rest }: Fields): unknown {
  const own = (tolerations as readonly { readonly key?: string }[]).filter(
    ({ key = '' }) => !key.startsWith('node.kubernetes.io/'),
  );
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([name]) => !OF_OTHER_PLUGINS.includes(name))),
    ...(own.length === 0 ? {} : { tolerations: own }),
  };
}
