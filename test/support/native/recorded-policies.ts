/** Cases of admission policies that were recorded from kube-apiserver 1.37, replayed in a sandbox. */
import { isDeepStrictEqual } from 'node:util';

import type { RawAnswer } from '../../conformance/transport.ts';
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
import { comparable, type Answer } from './comparable-answers.ts';

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
  /** Of the policy, once it is checked. */
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

export interface Seen {
  readonly answer: unknown;
  readonly audit: unknown;
  readonly followUp: readonly unknown[];
  readonly status: unknown;
}

export const recordedIn = ({ response, audit, followUp = [], status }: Recorded): Seen => ({
  answer: comparable(response),
  audit: ownAudit(audit ?? {}),
  followUp: followUp.map((one) => comparable(one.response)),
  status: status ?? null,
});

export async function replay(recorded: Recorded): Promise<Seen> {
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
export async function replayInAllOrders(recorded: Recorded): Promise<readonly Seen[]> {
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

export function answerOf({ status, text, headers }: RawAnswer): Answer {
  const warnings = (headers.warning ?? []).map(
    (line) => JSON.parse(Buffer.from(line.replace(/^299 - /, ''), 'latin1').toString()) as string,
  );
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
