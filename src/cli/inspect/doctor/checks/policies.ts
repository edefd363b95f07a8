/** Whether what people wrote is in force. */
import type { Condition, ObjectMeta } from '../../../../json/kube-object.ts';
import type { Evidence } from '../evidence.ts';
import { ok, orElse, problem, warning, type Finding } from '../finding.ts';
import { judgeLook, type Look } from '../look.ts';

const CHECK = 'policies';

interface Judged {
  readonly metadata: ObjectMeta;
  readonly status?: { readonly conditions?: readonly Condition[] | undefined } | undefined;
}

export function checkPolicies({
  policies,
  conversions,
  detectors,
}: Pick<Evidence, 'policies' | 'conversions' | 'detectors'>): readonly Finding[] {
  return [
    ...ofKind('AdmissionPolicy', policies, problem),
    ...ofKind('ConversionPolicy', conversions, problem),
    // One that trusts no namespace yet is how they are shipped.
    ...ofKind('RestoreDetector', detectors, warning),
  ];
}

type Severe = (check: string, seen: string, next: string) => Finding;

const ofKind = (kind: string, looked: Look<readonly Judged[]>, severe: Severe): readonly Finding[] =>
  judgeLook(CHECK, looked, (objects) =>
    orElse(
      objects.flatMap((object) => judge(kind, object, severe)),
      ok(CHECK, objects.length === 0 ? `there is no ${kind}` : `${kind}: all ${objects.length} are ready`),
    ),
  );

function judge(kind: string, { metadata, status }: Judged, severe: Severe): readonly Finding[] {
  const name = `${kind} ${metadata.name ?? ''}`;
  const describe = `kubectl describe ${kind.toLowerCase()} ${metadata.name ?? ''}`;
  const conditions = status?.conditions ?? [];
  const bad = conditions.filter(({ status: is }) => is === 'False');
  const ready = conditions.find(({ type }) => type === 'Ready');
  if (ready === undefined || (ready.observedGeneration ?? 0) < (metadata.generation ?? 0))
    return [
      warning(CHECK, `${name} was not looked at since it was written`, `see the check leader; ${describe}`),
    ];
  return bad.map(({ type, reason, message }) =>
    severe(CHECK, `${name} is not ${type} (${reason}): ${firstLine(message)}`, describe),
  );
}

/** The rest of it may be a manifest to apply; `kubectl describe` shows it. */
const firstLine = (text: string): string => text.split('\n', 1)[0] ?? '';
