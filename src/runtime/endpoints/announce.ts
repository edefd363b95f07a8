/** Events on Services whose servers have not loaded their renewed certificate: one per change, not one per probe. */
import { REPEAT_MS } from '../controller.ts';
import type { StaleServer, StaleService } from './served-certs.ts';

export type Announcement =
  | { readonly type: 'Warning'; readonly reason: 'StaleCertificate'; readonly message: string }
  | { readonly type: 'Normal'; readonly reason: 'CertificateReloaded'; readonly message: string };

/** What was announced about a Service, by a monotonic clock. */
export interface Announced {
  readonly secretName: string;
  readonly pods: ReadonlySet<string>;
  readonly at: number;
  /** How many Warnings in a row: each one waits longer for further pods. */
  readonly times: number;
}

/** Pods of a Service are found one after the other: wait for the others, in milliseconds. */
const GATHER_MS = 10_000;
const MAX_GATHER_MS = 10 * 60_000;

/** When to decide about the next Event of a Service. */
export const announceAt = (announced: Announced | undefined, now: number): number =>
  now + Math.min(MAX_GATHER_MS, GATHER_MS * 2 ** Math.min(announced?.times ?? 0, 10));

/** @param stale undefined: no server of the Service is stale */
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
  return {
    event: { type: 'Warning', reason: 'StaleCertificate', message: messageOf(stale, pods) },
    announced: {
      ...{ secretName: stale.service.secretName, pods: new Set(pods), at: now },
      times: (announced?.times ?? 0) + 1,
    },
  };
}

export const podsOf = ({ servers }: StaleService): readonly string[] => [
  ...new Set(servers.map(({ pod }) => pod).sort()),
];

export const endOf = (servers: readonly StaleServer[]): Date =>
  new Date(Math.min(...servers.map(({ notAfter }) => notAfter.getTime())));

const MAX_NAMED = 10;

function messageOf({ service, servers }: StaleService, pods: readonly string[]): string {
  const named = pods.slice(0, MAX_NAMED).join(', ');
  const more = pods.length > MAX_NAMED ? ` and ${pods.length - MAX_NAMED} more` : '';
  const [who, verb] = pods.length === 1 ? ['pod', 'presents'] : ['pods', 'present'];
  const end = endOf(servers)
    .toISOString()
    .replace(/\.\d+Z$/, 'Z');
  return (
    `${who} ${named}${more} still ${verb} an earlier certificate than secret ${service.secretName} contains; it ends at ${end}: ` +
    'restart the pods before, for example with kubectl rollout restart'
  );
}
