/** The results of handshakes: a ConfigMap for `gatehouse status`, with the restart in progress, and Events on Services. */
import { someOf } from '../../json/counted.ts';
import { isDeepStrictEqual } from 'node:util';
import { jsonIn, listIn, textIn, valueIn } from '../../json/json.ts';
import { toTimestamp } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { EventNote } from '../../kube/events.ts';
import { configMaps } from '../../kube/well-known.ts';
import { ownConfigMap, type ConfigMap } from '../certificates/ca-bundle.ts';
import { REPEAT_MS, requeueIn, type Reconcile } from '../controller.ts';
import type { EndpointState, StaleService, StaleServer } from './served-certs.ts';

export const SERVED_CERTS_CONFIGMAP = 'gatehouse-served-certs';
const KEY = 'report.json';

export type ServedCertsReport = ReturnType<typeof reportOf>;
export type StaleRow = ReturnType<typeof rowOf>;

const MAX_SERVICES = 500;
const MAX_PODS = 10;

/** How often the time in the report is renewed. A report that is older than three times this is not maintained. */
export const REPORT_EVERY_MS = 10 * 60_000;

export function reportOf(
  counts: Readonly<Record<EndpointState, number>>,
  stale: readonly StaleService[],
  now: Date,
  sinceOf: (at: number) => Date,
) {
  const { current, stale: staleCount, foreign, unreachable } = counts;
  const rows = stale.map((one) => rowOf(one, sinceOf)).toSorted((a, b) => (a.notAfter < b.notAfter ? -1 : 1));
  return {
    checkedAt: toTimestamp(now),
    endpoints: { current, stale: staleCount, foreign, unreachable },
    stale: rows.slice(0, MAX_SERVICES),
  };
}

function rowOf(stale: StaleService, sinceOf: (at: number) => Date) {
  const { service, servers } = stale;
  const pods = podsOf(stale);
  return {
    namespace: service.namespace,
    service: service.name,
    secret: service.secretName,
    pods: pods.slice(0, MAX_PODS),
    count: pods.length,
    since: toTimestamp(sinceOf(Math.min(...servers.map(({ since }) => since)))),
    notAfter: toTimestamp(endOf(servers)),
  };
}

export function parseReport({ data }: ConfigMap): ServedCertsReport | undefined {
  const report = jsonIn(data?.[KEY] ?? '');
  const checkedAt = textIn(report, 'checkedAt');
  if (Number.isNaN(Date.parse(checkedAt))) return undefined;
  const count = (...path: readonly string[]): number => Number(valueIn(report, ...path)) || 0;
  return {
    checkedAt,
    endpoints: {
      current: count('endpoints', 'current'),
      stale: count('endpoints', 'stale'),
      foreign: count('endpoints', 'foreign'),
      unreachable: count('endpoints', 'unreachable'),
    },
    stale: listIn(report, 'stale').map((row) => ({
      namespace: textIn(row, 'namespace'),
      service: textIn(row, 'service'),
      secret: textIn(row, 'secret'),
      pods: listIn(row, 'pods').filter((pod) => typeof pod === 'string'),
      count: Number(valueIn(row, 'count')) || 0,
      since: textIn(row, 'since'),
      notAfter: textIn(row, 'notAfter'),
    })),
  };
}

export function createReportReconciler(
  client: Pick<KubeClient, 'get' | 'create' | 'replace'>,
  namespace: string,
  read: () => ServedCertsReport,
): Reconcile {
  return async (name, signal) => {
    const live = await client.get<ConfigMap>(configMaps, { namespace, name }, { signal });
    const report = read();
    const now = new Date(report.checkedAt);
    const before = live === undefined ? undefined : parseReport(live);
    if (before === undefined || !isSame(before, report)) {
      const data = { ...live?.data, [KEY]: `${JSON.stringify(report, undefined, 1)}\n` };
      const desired = ownConfigMap(live, { namespace, name }, data);
      await (live === undefined ? client.create : client.replace)(configMaps, desired, { signal });
    }
    return requeueIn(REPORT_EVERY_MS, now);
  };
}

function isSame(before: ServedCertsReport, report: ServedCertsReport): boolean {
  // Each leader counts `since` from its first handshake.
  const undated = (rows: ServedCertsReport['stale']) => rows.map((row) => ({ ...row, since: undefined }));
  const content = ({ endpoints, stale }: ServedCertsReport) => [endpoints, undated(stale)];
  const ageMs = Date.parse(report.checkedAt) - Date.parse(before.checkedAt);
  return Math.abs(ageMs) < REPORT_EVERY_MS / 2 && isDeepStrictEqual(content(before), content(report));
}

type Announcement = Pick<EventNote, 'type' | 'reason' | 'message'>;

export interface Announced {
  readonly secretName: string;
  readonly pods: ReadonlySet<string>;
  readonly at: number;
  /** How many Warnings in a row: each one waits longer for further pods. */
  readonly times: number;
}

const GATHER_MS = 10_000;
const MAX_GATHER_MS = 10 * 60_000;

export const announceAt = (announced: Announced | undefined, now: number): number =>
  now + Math.min(MAX_GATHER_MS, GATHER_MS * 2 ** Math.min(announced?.times ?? 0, 10));

/** One Event per change, not one per probe. `stale` is undefined if no server of the Service is. */
export function announcementOf(
  stale: StaleService | undefined,
  announced: Announced | undefined,
  now: number,
): { readonly event: Announcement | undefined; readonly announced: Announced | undefined } {
  if (stale === undefined) {
    if (announced === undefined) return { event: undefined, announced };
    const message = `no server is known to present an earlier certificate than secret ${announced.secretName} contains`;
    return { event: { type: 'Normal', reason: 'CertificateReloaded', message }, announced: undefined };
  }
  const pods = podsOf(stale);
  const isNew = announced === undefined || pods.some((pod) => !announced.pods.has(pod));
  if (!isNew && now - announced.at < REPEAT_MS) return { event: undefined, announced };
  const { secretName } = stale.service;
  const times = (announced?.times ?? 0) + 1;
  return {
    event: { type: 'Warning', reason: 'StaleCertificate', message: messageOf(stale, pods) },
    announced: { secretName, pods: new Set(pods), at: now, times },
  };
}

const podsOf = ({ servers }: StaleService): readonly string[] => [
  ...new Set(servers.map(({ pod }) => pod).sort()),
];

const endOf = (servers: readonly StaleServer[]): Date =>
  new Date(Math.min(...servers.map(({ notAfter }) => notAfter.getTime())));

function messageOf({ service, servers }: StaleService, pods: readonly string[]): string {
  const [who, verb] = pods.length === 1 ? ['pod', 'presents'] : ['pods', 'present'];
  const end = endOf(servers)
    .toISOString()
    .replace(/\.\d+Z$/, 'Z');
  return (
    `${who} ${someOf(pods, MAX_PODS)} still ${verb} an earlier certificate than secret ${service.secretName} contains; it ends at ${end}: ` +
    'restart the pods before, for example with kubectl rollout restart'
  );
}

/** A later leader must not restart another workload during this rollout. Each write is conditional. */
const RESTART_KEY = 'restart.json';

export const ROLLOUT_MS = 10 * 60_000;
export type RestartRecord = ReturnType<typeof createRestartRecord>;

export function createRestartRecord(
  client: Pick<KubeClient, 'get' | 'create' | 'replace'>,
  namespace: string,
) {
  const ref = { namespace, name: SERVED_CERTS_CONFIGMAP };
  let own: string | undefined;
  const read = (signal: AbortSignal) => client.get<ConfigMap>(configMaps, ref, { signal });
  const write = async (live: ConfigMap | undefined, text: string | undefined, signal: AbortSignal) => {
    const others = Object.entries(live?.data ?? {}).filter(([key]) => key !== RESTART_KEY);
    const data = [...others, ...(text === undefined ? [] : [[RESTART_KEY, text] as const])];
    const desired = ownConfigMap(live, ref, Object.fromEntries(data));
    await (live === undefined ? client.create : client.replace)(configMaps, desired, { signal });
  };

  return {
    /** Undefined: it may be restarted. Otherwise why not, for users. @throws ApiError, e.g. if another leader has just written */
    begin: async (workload: string, now: Date, signal: AbortSignal): Promise<string | undefined> => {
      const live = await read(signal);
      const stored = live?.data?.[RESTART_KEY];
      const other = stored === undefined || stored === own ? undefined : running(stored, now);
      if (other !== undefined)
        return `${other}, which an earlier leader restarted, might not be available again`;
      const text = JSON.stringify({ workload, at: toTimestamp(now) });
      await write(live, text, signal);
      own = text;
      return undefined;
    },
    /** The rollout is over. If the record stays, only a later leader waits for it. */
    end: async (signal: AbortSignal): Promise<void> => {
      try {
        const live = await read(signal);
        if (own !== undefined && live?.data?.[RESTART_KEY] === own) await write(live, undefined, signal);
      } catch {
        signal.throwIfAborted();
      }
    },
  };
}

function running(text: string, now: Date): string | undefined {
  const record = jsonIn(text);
  const age = Math.abs(now.getTime() - Date.parse(textIn(record, 'at')));
  return age < ROLLOUT_MS ? textIn(record, 'workload') : undefined;
}
