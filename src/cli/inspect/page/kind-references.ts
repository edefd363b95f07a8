/** The references of policies, by kind. */
import type { AdmissionPolicy, AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { groupResourceName } from '../../../json/kube-object.ts';

/** One reference of one policy, from one kind. */
export interface KindReference {
  readonly policy: string;
  readonly reference: string;
  /** `servers.infra.example.com` */
  readonly from: string;
  readonly path: string;
  readonly to: string;
  readonly onTargetDelete: string;
  readonly guarantee: string;
  /** The number of violations; undefined before the first audit. */
  readonly violations: number | undefined;
}

/** Those of the version in force. */
export function referencesOf({ metadata, spec: newest, status }: AdmissionPolicy): readonly KindReference[] {
  // The API server has validated status.inForce against the schema of the policy.
  const spec = (status?.inForce?.spec as AdmissionPolicySpec | undefined) ?? newest;
  return (spec.validate?.references ?? []).flatMap(
    ({ name, path, target, onTargetDelete = 'Allow', guarantee = 'BestEffort' }) =>
      spec.match.apiGroups.flatMap((group) =>
        spec.match.resources.map((resource) => ({
          ...{ policy: metadata.name ?? '', reference: name, path, onTargetDelete, guarantee },
          from: groupResourceName({ group, resource }),
          to: groupResourceName({ group: target.apiGroup, resource: target.resource }),
          violations: status?.violations?.byReference?.[name],
        })),
      ),
  );
}
