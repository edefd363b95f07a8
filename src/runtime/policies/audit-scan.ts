/**
 * Checks every stored object that a policy governs: for the audit on the leader, and for `gatehouse review --cluster`.
 */
import { auditObject, forAudit } from '../../admission/policy/audit.ts';
import type { Violation } from '../../admission/policy/violation.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import type { AuditWorld } from '../../admission/policy/world.ts';
import type { AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import {
  groupResourceName,
  toTimestamp,
  type GroupResource,
  type KubeObject,
} from '../../json/kube-object.ts';
import { messageOf } from '../../json/error-message.ts';
import { backgroundTurns } from '../../server/limits/turns.ts';
import { governed } from './policy-kinds.ts';
import type { StoredKind, StoredObjects } from './stored-objects.ts';

export type AuditResult = NonNullable<AdmissionPolicyStatus['violations']>;

export interface AuditSources {
  readonly stored: Pick<StoredObjects, 'pages' | 'namespaceLabels'>;
  readonly world: AuditWorld;
  readonly now: () => Date;
}

/** A stored object that violates the policy. */
export interface Violator {
  readonly resource: GroupResource;
  readonly object: KubeObject;
  readonly violations: readonly Violation[];
}

/**
 * @param onViolator called once for each object with violations
 * @returns the counts; `message` names the kinds that could not be checked, and why
 * @throws the reason of `signal` on abort, and when the namespaces cannot be read
 */
export async function scanStored(
  inForce: CompiledPolicy,
  { stored, world, now }: AuditSources,
  onViolator: (violator: Violator) => void,
  signal: AbortSignal,
): Promise<AuditResult> {
  const policy = forAudit(inForce);
  const namespaces = await stored.namespaceLabels(signal);
  const circumstances = { world, signal, turns: backgroundTurns };
  const problems: string[] = [];
  let total = 0;
  let objects = 0;
  let checked = 0;
  const byReference = new Map(inForce.references.map(({ name }) => [name, 0]));
  for (const resource of governedKinds(inForce)) {
    try {
      for await (const page of stored.pages(resource, signal)) {
        for (const object of page.filter((one) => isInScope(policy, one, namespaces))) {
          checked += 1;
          const time = now().getTime(); // an exception may expire during a long audit
          const audited = await auditObject(policy, resource, object, { ...circumstances, now: time });
          if (audited.kind === 'unknown') throw audited.cause;
          const violations = withoutGrace(audited.violations, inForce, object, time);
          if (violations.length === 0) continue;
          total += violations.length;
          for (const { check = '', deferrable = 'references' } of violations) {
            const before = byReference.get(check);
            // A rule may have the name of a reference.
            if (before !== undefined && deferrable === 'references') byReference.set(check, before + 1);
          }
          objects += 1;
          onViolator({ resource, object, violations });
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      problems.push(`${groupResourceName(resource)}: ${messageOf(error)}`);
    }
  }
  const checkedAt = toTimestamp(now());
  const { generation } = inForce;
  const message =
    problems.length === 0 ? {} : { message: `could not check ${problems.join('; ')}`.slice(0, 1024) };
  const counts = byReference.size === 0 ? {} : { byReference: Object.fromEntries(byReference) };
  return { total, objects, checked, checkedAt, generation, ...counts, ...message };
}

/** Leaves out the references of an object within its grace period: their targets may still be created. */
function withoutGrace(
  violations: readonly Violation[],
  { initiallyDeferred, references }: CompiledPolicy,
  { metadata }: KubeObject,
  now: number,
): readonly Violation[] {
  if (initiallyDeferred === undefined) return violations;
  const createdAt = new Date(metadata?.creationTimestamp ?? 0).getTime();
  if (now - createdAt >= initiallyDeferred.graceMs) return violations;
  return violations.filter(({ check }) => !references.some(({ name }) => name === check));
}

/** The governed kinds in the first version that the policy matches, or in the preferred one if it matches all. */
export function governedKinds(policy: Pick<CompiledPolicy, 'match'>): readonly StoredKind[] {
  const [version] = policy.match.apiVersions;
  return governed(policy).map((kind) =>
    version === undefined || version === '*' ? kind : { ...kind, version },
  );
}
