/** Runs one path against the API server, and judges what is stored after each step. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { PlainAnswer, PlainClient, PlainRequest } from '../support/plain-client.ts';
import { HOLD, USERS } from './kinds.ts';
import { assignAll, at, folderOf, isObject, send, validObject, type Json, type Place } from './objects.ts';
import { judgeStep, protectedBins, uidOf, type Stored } from './oracle.ts';
import type { Assignment, Kind, Step, Write } from './steps.ts';

export interface Outcome {
  readonly violations: readonly string[];
  readonly transcript: readonly string[];
}

type Observe = (write: Write, answer: PlainAnswer) => void;

const SEEN_WITHIN_MS = 10_000;
const GIVEN: readonly (readonly [Kind, string, Json, ...Assignment[]])[] = [
  ['bins', 'x', {}],
  ['bins', 'y', { capacity: 2 }],
  ['widgets', 'a', { spare: 'y' }, [['metadata', 'finalizers'], [HOLD]]],
  ['widgets', 'b', { home: 'y', serial: 's-1', level: 3, zone: 'east' }],
  ['deployments', 'd', {}],
  ['pods', 'keep', {}],
  ['pods', 'free', {}],
];
export const GIVEN_TEXT = GIVEN.map(([kind, name, spec, ...rest]) =>
  [
    `${kind}/${name}`,
    ...(Object.keys(spec).length > 0 ? [JSON.stringify(spec)] : []),
    ...rest.map(([path]) => `with ${path.join('.')}`),
  ].join(' '),
).join(', ');

const NOTHING: Stored = { widgets: new Map(), bins: new Map(), deployments: new Map(), pods: new Map() };

const plain = { version: 'v1', via: 'post', as: 'alice', set: [], forged: [], padding: 'none' } as const;
const newWrite = (kind: Kind, name: string): Write => ({ ...plain, kind, name, dryRun: false, bare: false });

export async function runPath(
  client: PlainClient,
  namespace: string,
  path: readonly Step[],
  observe: Observe = () => undefined,
): Promise<Outcome> {
  const kinds = new Set<Kind>(['bins', 'widgets', ...path.flat().map(({ kind }) => kind)]);
  const place = await prepare(client, namespace, kinds);
  const transcript: string[] = [];
  const restored = new Set<unknown>();
  let before = { ...NOTHING, ...(await readStored(place, [...kinds])) };
  const unready = await untilSeen(place, { ...before, widgets: new Map() }, before);
  if (unready !== undefined) throw new Error(`the path cannot start: ${unready}`);
  for (const [at, step] of path.entries()) {
    const answers = await Promise.all(step.map((write) => send(write, place)));
    for (const [index, write] of step.entries()) {
      const answer = answers[index] ?? { code: 0, text: '', body: {} };
      observe(write, answer);
      const number = `${at + 1}${step.length > 1 ? (index === 0 ? 'a' : 'b') : ''}`;
      transcript.push(`${number}. ${describeWrite(write)} → ${describe(answer)}`);
    }
    const brokenWebhooks = answers.flatMap(webhookFailures);
    if (brokenWebhooks.length > 0) return { violations: brokenWebhooks, transcript };
    // A refused write changes nothing, except that a collection may be deleted in part.
    if (answers.every(({ code }, index) => code >= 400 && step[index]?.via !== 'deletecollection')) continue;
    const after = { ...before, ...(await readStored(place, changedBy(step))) };
    const violations = judgeStep(before, after, step, restored);
    if (violations.length > 0) return { violations, transcript };
    const unseen = await untilSeen(place, before, after);
    if (unseen !== undefined) return { violations: [unseen], transcript };
    before = after;
  }
  return { violations: [], transcript };
}

async function prepare(client: PlainClient, namespace: string, kinds: ReadonlySet<Kind>): Promise<Place> {
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } };
  await created(client, { path: '/api/v1/namespaces', body });
  let binUid = '';
  for (const [kind, name, spec, ...set] of GIVEN) {
    if (!kinds.has(kind)) continue;
    const write = newWrite(kind, name);
    const fields = Object.entries(spec).map(([field, value]): Assignment => [['spec', field], value]);
    const object = assignAll(validObject(write), [...fields, ...set]);
    const stored = await created(client, { path: folderOf(write, namespace), body: object });
    if (name === 'x') binUid = String(uidOf(stored));
  }
  return { client, namespace, binUid };
}

/** Under load, Gatehouse may answer 429, and the API server 500. */
async function created(client: PlainClient, request: Pick<PlainRequest, 'path' | 'body'>): Promise<Json> {
  for (let attempt = 1; ; attempt += 1) {
    const { code, body } = await client.ask({ method: 'POST', ...request });
    if (code === 201) return body;
    if (attempt === 10 || (code < 500 && code !== 429))
      throw new Error(`the path cannot start: ${code} ${messageOf(body)}`);
    await sleep(attempt * 100);
  }
}

/** If a Bin is deleted, the garbage collector can delete Widgets. */
const changedBy = (step: Step): readonly Kind[] => [
  ...new Set(step.flatMap(({ kind }): readonly Kind[] => (kind === 'bins' ? ['bins', 'widgets'] : [kind]))),
];

async function readStored({ client, namespace }: Place, kinds: readonly Kind[]): Promise<Stored> {
  const lists = await Promise.all(
    kinds.map(async (kind) => {
      const path = folderOf({ kind, version: 'v1' }, namespace);
      const { code, body } = await client.ask({ method: 'GET', path });
      if (code !== 200) throw new Error(`could not list ${kind}: ${code} ${messageOf(body)}`);
      const items = Array.isArray(body.items) ? body.items.filter(isObject) : [];
      return [kind, new Map(items.map((item) => [String(at(item, 'metadata', 'name')), item]))] as const;
    }),
  );
  return Object.fromEntries(lists) as unknown as Stored; // of a part of the kinds
}

/**
 * Waits until Gatehouse has seen changed Bins and new references to them: races of a reference with a deletion of its
 * target are a documented limitation. @returns a problem if it does not see them in time
 */
async function untilSeen(place: Place, before: Stored, after: Stored): Promise<string | undefined> {
  for (const name of ['x', 'y', 'z']) {
    const [old, now] = [before.bins.get(name), after.bins.get(name)];
    if (versionOf(old) === versionOf(now)) continue;
    const capacity = Number(at(now, 'spec', 'capacity') ?? 0);
    const probe = newWrite('widgets', 'probe');
    const body = assignAll(validObject(probe), [
      [['spec', 'bin'], name],
      [['spec', 'units'], capacity + 1],
    ]);
    const path = `${folderOf(probe, place.namespace)}?dryRun=All`;
    if (!(await isRefused(() => place.client.ask({ method: 'POST', path, as: 'alice', body }))))
      return `bins/${name} has changed, and a Widget that does not fit is still admitted`;
  }
  const known = protectedBins(before);
  for (const [widget, name] of protectedBins(after)) {
    if (known.get(widget) === name) continue;
    const path = `${folderOf(newWrite('bins', name), place.namespace)}/${name}?dryRun=All`;
    if (await isRefused(() => place.client.ask({ method: 'DELETE', path, as: 'alice' }))) continue;
    const now = await readStored(place, ['widgets', 'bins']); // the garbage collector may have deleted them
    if (protectedBins(now).get(widget) === name)
      return `widgets/${widget} names bins/${name}, and a deletion of the Bin is still admitted`;
  }
  return undefined;
}

const versionOf = (object: unknown) => at(object, 'metadata', 'resourceVersion');

async function isRefused(ask: () => Promise<PlainAnswer>): Promise<boolean> {
  const until = performance.now() + SEEN_WITHIN_MS;
  while (performance.now() < until) {
    const { code } = await ask();
    if (code === 403 || code === 404) return true;
    await sleep(5);
  }
  return false;
}

/** A webhook must answer each review, except under overload: an HTTP error opens every entry with `Ignore`. */
function webhookFailures({ code, body }: PlainAnswer): readonly string[] {
  const message = messageOf(body);
  const isFailure = code === 500 && message.includes('failed calling webhook');
  return isFailure && !/deadline|timeout|too many requests|429/i.test(message) ? [message] : [];
}

const messageOf = (body: Json) => (typeof body.message === 'string' ? body.message : '');

const describe = ({ code, body }: PlainAnswer) =>
  code < 400 && code > 0 ? String(code) : `${code} ${messageOf(body).slice(0, 300)}`;

function describeWrite({ via, kind, name, set, forged, padding, as, version, dryRun, bare }: Write): string {
  const target = via === 'deletecollection' ? kind : `${kind}/${name}`;
  const fields = set.map(([path, value]) => `${path.join('.')}=${JSON.stringify(value)}`);
  return [
    `${USERS[as]}: ${via} ${target}`,
    ...(fields.length > 0 ? [fields.join(', ')] : []),
    ...(forged.length > 0 ? [`forged ${forged.join(', ')}`] : []),
    ...(padding === 'none' ? [] : [`padded with ${padding}`]),
    ...(version === 'v1' ? [] : [`as ${version}`]),
    ...(dryRun ? ['dry run'] : []),
    ...(bare ? ['only these fields'] : []),
  ].join(', ');
}
