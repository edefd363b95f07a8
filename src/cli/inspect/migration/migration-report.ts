/** The report of `gatehouse status --migration`. docs/status.md documents its fields in JSON and YAML. */
import { readableCertificates } from '../../../pki/x509/pem.ts';
import { unreadOf, type Unread } from '../read-cluster/reading.ts';
import { authorityPart } from '../status/report/authority.ts';
import type { ReportContext } from '../status/report/status-report.ts';
import { certificateRows, issuerRows } from './certificates.ts';
import type { MigrationContext, MigrationRow } from './migration-row.ts';
import type { MigrationReadings, System } from './read-migration.ts';
import { serviceRows } from './services.ts';
import { targetRows } from './targets.ts';

export interface MigrationReport {
  readonly server: string;
  readonly version: string;
  readonly namespace: string;
  /** RFC 3339, by the clock of the API server. */
  readonly checkedAt: string;
  readonly migration: System;
  /** Whether everything was read, and nothing is blocked. */
  readonly ready: boolean;
  readonly unread: readonly Unread[];
  readonly items: readonly MigrationRow[];
}

export function migrationReport(
  readings: MigrationReadings,
  system: System,
  { server, version, namespace, now }: Omit<ReportContext, 'compat'>,
): MigrationReport {
  const authority = authorityPart(readings, namespace, now);
  const { bundle, part } = authority;
  const isAbsent = bundle.kind !== 'bundle' && part.unread.length === 0;
  const ownRoots = bundle.kind === 'bundle' ? readableCertificates(bundle.pem) : isAbsent ? [] : undefined;
  const context: MigrationContext = { readings, system, authority, ownRoots, now };
  const items = [serviceRows, targetRows, certificateRows, issuerRows].flatMap((rows) => rows(context));
  const unread = [...(bundle.kind === 'bundle' ? [] : part.unread), ...unreadIn(readings)];
  return {
    ...{ server, version, namespace, checkedAt: now.toISOString(), migration: system },
    ready: unread.length === 0 && items.every(({ state }) => state === 'Done' || state === 'Ready'),
    ...{ unread, items },
  };
}

function unreadIn(readings: MigrationReadings): readonly Unread[] {
  const { services, targets, sources, secrets, certificates, issuers, clusterIssuers } = readings;
  // In most cases all for the same reason.
  const [first, ...others] = [...secrets].flatMap(([key, reading]) => unreadOf(`Secret ${key}`, reading));
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  return [
    ...unreadOf('Services', services),
    ...(first === undefined ? [] : [{ ...first, what: `${first.what}${more}` }]),
    ...targets.flatMap(({ kind, objects }) => unreadOf(`${kind.kind}s`, objects)),
    ...[...sources].flatMap(([name, reading]) => unreadOf(name, reading)),
    ...unreadOf('Certificates', certificates),
    ...unreadOf('Issuers', issuers),
    ...unreadOf('ClusterIssuers', clusterIssuers),
  ];
}
