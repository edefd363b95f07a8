/** The result of all handshakes in a ConfigMap, for `gatehouse status` and the status page. */
import { isDeepStrictEqual } from 'node:util';

import { listIn, parseJson, textIn, valueIn } from '../../json/json.ts';
import { toTimestamp, type KubeObject } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { configMaps } from '../../kube/well-known.ts';
import { ownStateLabels } from '../certificates/ca-bundle.ts';
import { requeueIn, type Reconcile } from '../controller.ts';
import { endOf, podsOf } from './announce.ts';
import type { EndpointState, StaleService } from './served-certs.ts';

export const SERVED_CERTS_CONFIGMAP = 'gatehouse-served-certs';
const KEY = 'report.json';

/** In JSON. Times are in RFC 3339. */
export interface ServedCertsReport {
  readonly checkedAt: string;
  readonly endpoints: Readonly<Record<Exclude<EndpointState, 'plain' | 'unknown'>, number>>;
  /** At most {@link MAX_SERVICES}. */
  readonly stale: readonly StaleRow[];
}

export interface StaleRow {
  readonly namespace: string;
  readonly service: string;
  readonly secret: string;
  /** The first pods by name, at most {@link MAX_PODS}. */
  readonly pods: readonly string[];
  /** How many pods are stale. */
  readonly count: number;
  readonly since: string;
  /** The end of the first certificate that ends. */
  readonly notAfter: string;
}

/** The size of a ConfigMap is limited. */
const MAX_SERVICES = 500;
const MAX_PODS = 10;

/** How often the time in the report is renewed. A report that is older than three times this is not maintained. */
export const REPORT_EVERY_MS = 10 * 60_000;

/** @param sinceOf converts a time of the monotonic clock */
export function reportOf(
  counts: Readonly<Record<EndpointState, number>>,
  stale: readonly StaleService[],
  now: Date,
  sinceOf: (at: number) => Date,
): ServedCertsReport {
  const { current, stale: staleCount, foreign, unreachable } = counts;
  const rows = stale.map((one) => rowOf(one, sinceOf)).toSorted((a, b) => (a.notAfter < b.notAfter ? -1 : 1));
  return {
    checkedAt: toTimestamp(now),
    endpoints: { current, stale: staleCount, foreign, unreachable },
    stale: rows.slice(0, MAX_SERVICES),
  };
}

function rowOf(stale: StaleService, sinceOf: (at: number) => Date): StaleRow {
  const { service, servers } = stale;
  const pods = podsOf(stale);
  return {
    ...{ namespace: service.namespace, service: service.name, secret: service.secretName },
    ...{ pods: pods.slice(0, MAX_PODS), count: pods.length },
    since: toTimestamp(sinceOf(Math.min(...servers.map(({ since }) => since)))),
    notAfter: toTimestamp(endOf(servers)),
  };
}

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

/** Undefined if the text is not a report. */
export function parseReport({ data }: ConfigMap): ServedCertsReport | undefined {
  const report = valueOf(data?.[KEY] ?? '');
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

function valueOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Writes when the content changes, and every {@link REPORT_EVERY_MS}. */
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
      const desired = {
        ...(live ?? { apiVersion: 'v1', kind: 'ConfigMap' }),
        metadata: {
          ...live?.metadata,
          namespace,
          name,
          labels: { ...live?.metadata?.labels, ...ownStateLabels },
        },
        data: { ...live?.data, [KEY]: `${JSON.stringify(report, undefined, 1)}\n` },
      };
      await (live === undefined ? client.create : client.replace)(configMaps, desired, { signal });
    }
    return requeueIn(REPORT_EVERY_MS, now);
  };
}

function isSame(before: ServedCertsReport, report: ServedCertsReport): boolean {
  // Each leader counts `since` from its first handshake.
  const content = ({ endpoints, stale }: ServedCertsReport) => [
    endpoints,
    stale.map((row) => ({ ...row, since: undefined })),
  ];
  const ageMs = Date.parse(report.checkedAt) - Date.parse(before.checkedAt);
  return Math.abs(ageMs) < REPORT_EVERY_MS / 2 && isDeepStrictEqual(content(before), content(report));
}
