/** Checks that every Service and every target that asks for a certificate or a CA bundle has it, as `gatehouse status` reports. */
import { counted } from '../../../../json/counted.ts';
import { describeUnread } from '../../read-cluster/reading.ts';
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { authorityPart } from '../../status/report/authority.ts';
import type { Judged, Listing } from '../../status/report/attention.ts';
import { injectionTargetsPart } from '../../status/report/injection-targets.ts';
import { servingCertsPart } from '../../status/report/serving-certs.ts';
import { ok, problem, unknown, type Result, type Results } from '../finding.ts';

/** Of thousands of objects. */
const MAX_FINDINGS = 20;

const SCOPE = { compat: [] } as const;

export function checkServingCerts({ cluster, namespace, now }: InstallationReadings): Results {
  const { signers } = authorityPart(cluster, namespace, now);
  const judged = servingCertsPart(cluster, SCOPE, signers, now);
  return toResults(judged, (count) =>
    count === 0 ? 'no Service asks for a certificate' : `${counted(count, 'certificate')} can be used`,
  );
}

export function checkInjectionTargets({ cluster, namespace, now }: InstallationReadings): Results {
  const { bundle } = authorityPart(cluster, namespace, now);
  const judged = injectionTargetsPart(cluster, bundle, { namespace, ...SCOPE }, now);
  return toResults(judged, (count) => `${counted(count, 'object')} with a CA bundle`);
}

function toResults(
  { part, problems }: Judged<Listing<unknown>>,
  success: (count: number) => string,
): Results {
  const found = problems
    .slice(0, MAX_FINDINGS)
    .map(({ object, message, command }) =>
      problem(`${object}: ${message}`, command ?? 'gatehouse status; see its events and the check leader'),
    );
  const unread = part.unread.map((one): Result =>
    unknown(describeUnread(one), 'run the command as a user who may read this'),
  );
  const results = [...found, ...unread];
  return results.length > 0 ? results : ok(success(part.items.length));
}
