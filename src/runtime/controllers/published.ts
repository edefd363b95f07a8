/** The state of users' controllers in a ConfigMap, which `gatehouse status`, `doctor` and the status page read. */
import { isDeepStrictEqual } from 'node:util';

import { jsonIn, listIn, objectIn, textIn, valueIn, type JsonValue } from '../../json/json.ts';
import { isDnsSubdomain, isSimpleName, toTimestamp } from '../../json/kube-object.ts';
import { cut } from '../../json/printable.ts';
import { configMaps } from '../../kube/well-known.ts';
import { ownConfigMap, type ConfigMap } from '../certificates/ca-bundle.ts';
import {
  AWAIT_CHANGE,
  type RecordingContext,
  requeueIn,
  startController,
  type Reconcile,
} from '../controller.ts';

export const CONTROLLERS_CONFIGMAP = 'gatehouse-user-controllers';
const KEY = 'report.json';

export interface MissingKind {
  readonly kind: string;
  readonly why: 'NotServed' | 'Forbidden' | 'Failed';
  readonly message: string;
}

/** The latest first. */
export interface Trouble {
  readonly object: string;
  readonly kind: 'failing' | 'delayed' | 'stalled';
  readonly reason: string;
  readonly message: string;
  readonly since: string;
}

export interface PublishedController {
  readonly name: string;
  /** `plural.group`, as in the lists of kinds that are missing. */
  readonly watches: string;
  /** The holder of the dev session that runs the controller now. */
  readonly lentTo: string | undefined;
  readonly timeoutSeconds: number;
  readonly missing: readonly MissingKind[];
  readonly objects: number;
  readonly queued: number;
  readonly active: number;
  readonly oldestPass: { readonly object: string; readonly at: string } | undefined;
  readonly lastPass: { readonly object: string; readonly at: string; readonly result: string } | undefined;
  readonly failing: number;
  readonly delayed: number;
  readonly stalled: number;
  readonly troubles: readonly Trouble[];
}

export type FormerController = Pick<PublishedController, 'name' | 'watches'>;

export interface PublishedState {
  readonly leader: string;
  readonly at: string;
  readonly controllers: readonly PublishedController[];
  /** How many more controllers there are. */
  readonly omitted: number;
  /** No longer defined: objects of these kinds can have their finalizers. */
  readonly former: readonly FormerController[];
}

const MAX_CONTROLLERS = 100;
const MAX_FORMER = 20;
const MAX_TEXT = 320;

/** Undefined: not written by Gatehouse, or by a later version. Any text can stand in each field. */
export function parseState({ data }: ConfigMap): PublishedState | undefined {
  const state = jsonIn(data?.[KEY] ?? '');
  const at = textIn(state, 'at');
  const controllers = listIn(state, 'controllers').slice(0, MAX_CONTROLLERS).map(controllerIn);
  const former = listIn(state, 'former').slice(0, MAX_FORMER).map(identityIn);
  const isValid =
    !Number.isNaN(Date.parse(at)) &&
    Array.isArray(valueIn(state, 'controllers')) &&
    [...controllers, ...former].every(({ name, watches }) => isSimpleName(name) && isDnsSubdomain(watches));
  if (!isValid) return undefined;
  return { leader: text(state, 'leader'), at, controllers, omitted: number(state, 'omitted'), former };
}

const text = (value: JsonValue | undefined, ...path: readonly string[]): string =>
  cut(textIn(value, ...path), MAX_TEXT);
const number = (value: JsonValue | undefined, key: string): number =>
  Math.max(0, Math.floor(Number(valueIn(value, key)) || 0));
const identityIn = (row: JsonValue): FormerController => ({
  name: text(row, 'name'),
  watches: text(row, 'watches'),
});
const oneOf = <T extends string>(value: string, first: T, ...others: readonly T[]): T =>
  others.find((one) => one === value) ?? first;

function controllerIn(row: JsonValue): PublishedController {
  const passIn = (key: string) => ({ object: text(row, key, 'object'), at: text(row, key, 'at') });
  const has = (key: string) => Object.keys(objectIn(row, key)).length > 0;
  return {
    ...identityIn(row),
    lentTo: textIn(row, 'lentTo') === '' ? undefined : text(row, 'lentTo'),
    timeoutSeconds: number(row, 'timeoutSeconds'),
    missing: listIn(row, 'missing')
      .slice(0, MAX_FORMER)
      .map((one) => ({
        kind: text(one, 'kind'),
        why: oneOf(textIn(one, 'why'), 'Failed', 'NotServed', 'Forbidden'),
        message: text(one, 'message'),
      })),
    objects: number(row, 'objects'),
    queued: number(row, 'queued'),
    active: number(row, 'active'),
    oldestPass: has('oldestPass') ? passIn('oldestPass') : undefined,
    lastPass: has('lastPass')
      ? { ...passIn('lastPass'), result: text(row, 'lastPass', 'result') }
      : undefined,
    failing: number(row, 'failing'),
    delayed: number(row, 'delayed'),
    stalled: number(row, 'stalled'),
    troubles: listIn(row, 'troubles')
      .slice(0, 5)
      .map((one) => ({
        object: text(one, 'object'),
        kind: oneOf(textIn(one, 'kind'), 'failing', 'delayed', 'stalled'),
        reason: text(one, 'reason'),
        message: text(one, 'message'),
        since: text(one, 'since'),
      })),
  };
}

/** How often the state is compared, and how often only its passes and counts are written, in milliseconds. */
const COMPARE_MS = 10_000;
const COUNTS_MS = 60_000;
/** A safety net: another client may have changed or deleted the ConfigMap. */
const RECHECK_MS = 10 * 60_000;

/** @param read all controllers that are defined */
export function createStateReconciler(
  client: Pick<RecordingContext['client'], 'get' | 'create' | 'replace'>,
  { namespace, leader }: { readonly namespace: string; readonly leader: string },
  read: () => readonly PublishedController[],
  now: () => Date,
): Reconcile {
  let written: PublishedState | undefined;
  let readAt = -Infinity;
  return async (name, signal) => {
    const controllers = read();
    const isEmpty = controllers.length === 0;
    const next = isEmpty ? AWAIT_CHANGE : requeueIn(COMPARE_MS, now());
    const time = now().getTime();
    if (time - readAt < RECHECK_MS && isSame(written, controllers, now())) return next;
    const live = await client.get<ConfigMap>(configMaps, { namespace, name }, { signal });
    const before = live && parseState(live);
    readAt = time;
    written = before?.leader === leader ? before : undefined;
    if (isSame(written, controllers, now()) || (isEmpty && (before?.controllers ?? []).length === 0))
      return next;
    const state = stateOf(leader, controllers, before, now());
    const data = { [KEY]: `${JSON.stringify(state, undefined, 1)}\n` };
    const desired = ownConfigMap(live, { namespace, name }, data);
    await (live === undefined ? client.create : client.replace)(configMaps, desired, { signal });
    written = parseState({ data });
    return next;
  };
}

export function stateOf(
  leader: string,
  all: readonly PublishedController[],
  before: PublishedState | undefined,
  now: Date,
): PublishedState {
  const isDefined = (name: string) => all.some((one) => one.name === name);
  const known = [...(before?.controllers ?? []), ...(before?.former ?? [])];
  const former = known.filter(({ name }) => !isDefined(name)).map(({ name, watches }) => ({ name, watches }));
  const controllers = shownOf(all);
  return {
    leader,
    at: toTimestamp(now),
    controllers,
    omitted: all.length - controllers.length,
    former: former.slice(0, MAX_FORMER),
  };
}

/** Those with problems first. A ConfigMap holds 1 MiB. */
const shownOf = (all: readonly PublishedController[]): readonly PublishedController[] =>
  all
    .toSorted((a, b) => weightOf(b) - weightOf(a))
    .slice(0, MAX_CONTROLLERS)
    .map((one) => (all.length > MAX_CONTROLLERS / 4 ? { ...one, troubles: one.troubles.slice(0, 1) } : one));
const weightOf = ({ missing, failing, delayed, stalled }: PublishedController): number =>
  missing.length + failing + delayed + stalled;

function isSame(before: PublishedState | undefined, all: readonly PublishedController[], now: Date): boolean {
  if (before === undefined) return false;
  const isRecent = now.getTime() - Date.parse(before.at) < COUNTS_MS;
  const content = (one: PublishedController) =>
    isRecent ? { ...one, objects: 0, queued: 0, active: 0, oldestPass: undefined, lastPass: undefined } : one;
  const stored = JSON.parse(JSON.stringify(shownOf(all))) as JsonValue[];
  return isDeepStrictEqual(before.controllers.map(content), stored.map(controllerIn).map(content));
}

/** Only on the leader, whose client writes nothing after it has lost its Lease. */
export function startPublishing(
  context: RecordingContext,
  read: () => readonly PublishedController[],
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  const { client, config, identity, serverClock } = context;
  const place = { namespace: config.namespace, leader: identity };
  const reconcile = createStateReconciler(client, place, read, serverClock.now);
  const options = { name: 'publish-controllers', key: CONTROLLERS_CONFIGMAP, reconcile };
  return startController(context, { ...options, serverNow: serverClock.now }, signal);
}
