/** Checks that policies and detectors are in force, and that no RestoreWindow is open for too long. */
import { counted } from '../../../../json/counted.ts';
import { objectKey, type Condition, type ObjectMeta } from '../../../../json/kube-object.ts';
import type { RestoreWindow } from '../../../../api/restore-window.ts';
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { valueOf, type Reading } from '../../read-cluster/reading.ts';
import { age } from '../../status/times.ts';
import { judgeReading, ok, orElse, problem, warning, type Results } from '../finding.ts';

interface Conditioned {
  readonly metadata: ObjectMeta;
  readonly status?: { readonly conditions?: readonly Condition[] | undefined } | undefined;
}

export const checkPolicies = ({
  policies,
  conversions,
  detectors,
  exceptions,
  now,
}: InstallationReadings): Results =>
  [
    judgeKind('AdmissionPolicy', policies, problem),
    matchingNothing(policies, now),
    judgeKind('ConversionPolicy', conversions, problem),
    // A warning: the shipped detectors do not trust namespaces yet.
    judgeKind('RestoreDetector', detectors, warning),
    // A warning: exceptions can expire in a correct installation.
    judgeKind('PolicyException', exceptions, warning),
  ].flat();

/** A warning, because matching objects can be created later. */
const matchingNothing = (policies: InstallationReadings['policies'], now: Date): Results =>
  (valueOf(policies) ?? []).flatMap(({ metadata: { name = '' }, status }) => {
    const { checked, message, checkedAt } = status?.violations ?? {};
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    if (checked !== 0 || message !== undefined || ready?.status !== 'True') return [];
    return warning(
      `AdmissionPolicy ${name} matched no existing object at its last audit, ${age(checkedAt, now)} ago`,
      `if such objects existed then, check spec.match: kubectl get admissionpolicy ${name} -o yaml`,
    );
  });

const judgeKind = (kind: string, reading: Reading<readonly Conditioned[]>, create: typeof problem): Results =>
  judgeReading(reading, (objects) =>
    orElse(
      objects.flatMap((object) => judgeConditions(kind, object, create)),
      ok(
        objects.length === 0
          ? `no ${kind} exists`
          : `${counted(objects.length, kind)} ${objects.length === 1 ? 'is' : 'are'} ready`,
      ),
    ),
  );

function judgeConditions(kind: string, { metadata, status }: Conditioned, create: typeof problem): Results {
  const { namespace } = metadata;
  const place = namespace === undefined ? '' : ` -n ${namespace}`;
  const name = `${kind} ${objectKey(metadata)}`;
  const describe = `kubectl describe ${kind.toLowerCase()} ${metadata.name ?? ''}${place}`;
  const conditions = status?.conditions ?? [];
  const ready = conditions.find(({ type }) => type === 'Ready');
  if (ready === undefined || (ready.observedGeneration ?? 0) < (metadata.generation ?? 0)) {
    const seen = `the leader has not processed the current generation of ${name}`;
    return warning(seen, `see the check leader; ${describe}`);
  }
  // Only the first line: the rest of a message can be a manifest, which `kubectl describe` shows.
  return conditions
    .filter((condition) => condition.status === 'False')
    .map(({ type, reason, message }) =>
      (ADVICE.includes(type) ? warning : create)(
        `${name} is not ${type} (${reason}): ${message.split('\n', 1)[0] ?? ''}`,
        describe,
      ),
    );
}

const ADVICE: readonly string[] = [
  'KindsServed',
  'SubresourcesCovered',
  'AppliedToUpdates',
  'ConflictFree',
  'ReadsReviewed',
  'ActionsPermitted',
  'DeletionsFinished',
];

/** The default duration of a window that a detector opens. */
const LONG_H = 6;
/** The leader closes an expired window within seconds. */
const OVERDUE_MS = 5 * 60_000;
const HOUR_MS = 3_600_000;

export const checkWindows = ({ windows, now }: InstallationReadings): Results =>
  judgeReading(windows, (all) => {
    const open = all.filter(({ status }) => status?.closedAt === undefined && status?.phase !== 'Refused');
    const seen =
      open.length === 0 ? 'no RestoreWindow is open' : `${open.length} open, none for more than ${LONG_H} h`;
    return orElse(
      open.flatMap((window) => judgeWindow(window, now)),
      ok(seen),
    );
  });

function judgeWindow({ metadata, spec, status }: RestoreWindow, now: Date): Results {
  const name = metadata.name ?? '';
  if (now.getTime() - Date.parse(spec.expiresAt) > OVERDUE_MS) {
    const seen = `RestoreWindow "${name}" expired at ${spec.expiresAt}, but the leader has not closed it`;
    return problem(seen, 'see the check leader');
  }
  const since = status?.openedAt ?? metadata.creationTimestamp;
  const hours = since === undefined ? 0 : (now.getTime() - Date.parse(since)) / HOUR_MS;
  if (hours <= LONG_H) return [];
  return warning(
    `RestoreWindow "${name}" has been open for ${Math.floor(hours)} h: some checks are deferred until ${spec.expiresAt}`,
    `gatehouse restore status ${name}; after the restore: gatehouse restore close ${name}`,
  );
}
