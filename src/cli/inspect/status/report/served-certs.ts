/** Which certificates servers present, as the leader reports. */
import {
  parseReport,
  REPORT_EVERY_MS,
  SERVED_CERTS_CONFIGMAP,
  type ServedCertsReport,
  type StaleRow,
} from '../../../../runtime/endpoints/report.ts';
import { after } from '../../../../pki/durations.ts';
import type { ConfigMap } from '../../../../runtime/certificates/ca-bundle.ts';
import { unreadOf, valueOf, type Reading } from '../../read-cluster/reading.ts';
import type { Judged, Listing, Problems } from './attention.ts';

export interface ServedCertsPart extends Listing<StaleRow> {
  /** RFC 3339. This and `endpoints` are undefined if the leader maintains no report, or has found no endpoint. */
  readonly checkedAt?: string | undefined;
  readonly endpoints?: ServedCertsReport['endpoints'] | undefined;
}

export function servedCertsPart(
  configMap: Reading<ConfigMap | undefined>,
  namespace: string,
  now: Date,
): Judged<ServedCertsPart> {
  const unread = unreadOf(`ConfigMap ${namespace}/${SERVED_CERTS_CONFIGMAP}`, configMap);
  const report = parseReport(valueOf(configMap) ?? {});
  const isMaintained = report !== undefined && after(new Date(report.checkedAt), 3 * REPORT_EVERY_MS) > now;
  if (!isMaintained || Object.values(report.endpoints).every((count) => count === 0))
    return { part: { unread, items: [] }, problems: [] };
  const { checkedAt, endpoints, stale } = report;
  return { part: { unread, checkedAt, endpoints, items: stale }, problems: stale.flatMap(problemsOf) };
}

function problemsOf({ namespace, service, secret, notAfter, ...row }: StaleRow): Problems {
  const message =
    `${podsOf(row)} still presenting an earlier certificate than Secret ${secret} contains; it ends at ${notAfter}: ` +
    'restart the pods before';
  return [{ object: `Service ${namespace}/${service}`, message }];
}

const podsOf = ({ pods, count }: Pick<StaleRow, 'pods' | 'count'>): string =>
  count === 1 ? `pod ${pods.join()} is` : `pods ${namedPods({ pods, count })} are`;

/** For example `a, b and 3 more`. */
export function namedPods({ pods, count }: Pick<StaleRow, 'pods' | 'count'>): string {
  const left = count - pods.length;
  return `${pods.join(', ')}${left > 0 ? ` and ${left} more` : ''}`;
}
