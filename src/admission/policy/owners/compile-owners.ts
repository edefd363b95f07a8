import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { keepsOwners } from '../../../api/owner-kinds.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import type { Problem } from '../problem.ts';

/** Whether owners are preserved, and what keeps them from being. */
export function compileOwners(
  { owners }: AdmissionPolicySpec,
  { apiGroups, resources, operations }: CompiledMatch,
  problems: Problem[],
): boolean {
  if (owners?.preserve !== true) return false;
  const adopted = apiGroups
    .flatMap((group) => resources.map((resource) => ({ group, resource })))
    .find((kind) => !keepsOwners(kind));
  if (adopted !== undefined) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.resources',
      message: `spec.owners cannot preserve the owners of ${groupResourceName(adopted)}: their controllers adopt them by labels, and a reference that comes back from a backup would have them deleted; govern them by a policy without spec.owners`,
    });
  }
  if (!operations.includes('CREATE') || !operations.includes('UPDATE')) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.operations',
      message:
        'has to have CREATE and UPDATE for spec.owners, or users could forge what is recorded: add them',
    });
  }
  return true;
}
