/** Everything that a policy governs and that is stored, judged by it: for the audit on the leader and for `gatehouse review --cluster`. */
import { auditObject, forAudit } from '../../admission/policy/audit.ts';
import type { Violation } from '../../admission/policy/violation.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope, type NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import type { Circumstances } from '../../admission/policy/world.ts';
import type { AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { governed } from './policies.ts';

export type AuditResult = NonNullable<AdmissionPolicyStatus['violations']>;

export interface AuditScanDeps {
  /** Every object of a kind, page by page, straight from storage. Throws when the kind cannot be read. */
  readonly pages: (
    resource: GroupResource & { readonly version?: string },
    signal: AbortSignal,
  ) => AsyncIterable<readonly KubeObject[]>;
  readonly namespaceLabels: (signal: AbortSignal) => Promise<NamespaceLabels>;
  readonly world: Circumstances['world'];
  readonly now: () => Date;
}

/** A stored object with what the policy has against it. */
export interface Culprit {
  readonly resource: GroupResource;
  readonly object: KubeObject;
  readonly violations: readonly Violation[];
}

/**
 * @param onCulprit told of each object with violations, once
 * @returns the counts; a `message` says what could not be checked, and why
 * @throws the reason of `signal` on abort, and when the namespaces cannot be read
 */
export async function scanStored(
  inForce: CompiledPolicy,
  { pages, namespaceLabels, world, now }: AuditScanDeps,
  onCulprit: (culprit: Culprit) => void,
  signal: AbortSignal,
): Promise<AuditResult> {
  const policy = forAudit(inForce);
  const namespaces = await namespaceLabels(signal);
  const circumstances = { world, signal, now: now().getTime() };
  const problems: string[] = [];
  let total = 0;
  let objects = 0;
  let checked = 0;
  for (const resource of governed(inForce)) {
    try {
      for await (const page of pages(inVersion(inForce, resource), signal)) {
        for (const object of page.filter((one) => isInScope(policy, one, namespaces))) {
          checked += 1;
          const audited = await auditObject(policy, resource, object, circumstances);
          if (audited.kind === 'unknown') throw audited.cause;
          const violations = withoutGrace(audited.violations, inForce, object, circumstances.now);
          if (violations.length === 0) continue;
          total += violations.length;
          objects += 1;
          onCulprit({ resource, object, violations });
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      problems.push(
        `${groupResourceName(resource)}: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }
  const checkedAt = now()
    .toISOString()
    .replace(/\.\d+Z$/, 'Z');
  const { generation } = inForce;
  const message =
    problems.length === 0 ? {} : { message: `not all was checked: ${problems.join('; ')}`.slice(0, 1024) };
  return { total, objects, checked, checkedAt, generation, ...message };
}

/** References of an object so young that what they name may still come. */
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

/** In the version in which the policy is asked; any will do where it takes all. */
function inVersion(
  { match: { apiVersions } }: CompiledPolicy,
  resource: GroupResource,
): GroupResource & { readonly version?: string } {
  const [version] = apiVersions;
  return version === undefined || version === '*' ? resource : { ...resource, version };
}
