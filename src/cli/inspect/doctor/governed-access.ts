/** What Gatehouse has to read for the policies that there are. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';

export interface GovernedKind extends GroupResource {
  /** The first policy that is about it. */
  readonly policy: string;
  /** Whether that policy is not in force without it. Otherwise only the audit of stored objects lacks it. */
  readonly needed: boolean;
}

/** Each kind that policies govern or refer to, once. */
export function governedKinds(policies: readonly AdmissionPolicy[]): readonly GovernedKind[] {
  const all = policies.flatMap(({ metadata, spec }) => {
    const { references = [], unique = [] } = spec.validate ?? {};
    const policy = metadata.name ?? '';
    const looksAround = references.length > 0 || unique.length > 0;
    const governed = spec.match.apiGroups.flatMap((group) =>
      spec.match.resources
        .filter((resource) => !resource.includes('/'))
        .map((resource) => ({ group: group ?? '', resource, policy, needed: looksAround })),
    );
    const targets = references.map(({ target }) => ({
      group: target.apiGroup ?? '',
      resource: target.resource,
      policy,
      needed: true,
    }));
    return [...governed, ...targets];
  });
  const needy = all.toSorted((a, b) => Number(b.needed) - Number(a.needed));
  return [...Map.groupBy(needy, groupResourceName).values()].flatMap((same) => same.slice(0, 1));
}
