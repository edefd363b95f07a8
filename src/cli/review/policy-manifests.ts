/** `gatehouse manifests -p`: the ClusterRoles that let Gatehouse read the kinds of policies, and act after deletions. */
import { readFileSync } from 'node:fs';

import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { uniqueBy } from '../../json/objects.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { governed, namedKinds } from '../../runtime/policies/policy-kinds.ts';
import { clusterRoleFor } from '../../runtime/policies/read-access.ts';
import { actionRoleFor, neededBy } from '../../runtime/references/action-access.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { readObjects, refuse } from './input.ts';
import { createKinds } from './kinds.ts';
import { readOwn } from './read-own.ts';

/**
 * YAML that can be applied as it is: a ClusterRole for each policy, and another one if it acts after deletions.
 *
 * @param paths files and folders; `-` is the standard input
 * @throws UnusableInput with all problems
 */
export function policyManifests(paths: readonly string[]): string {
  const options = { recursive: false, standardInput: () => readFileSync(0, 'utf8') };
  const objects = readObjects(paths, options);
  const { registry } = createKinds(objects, createStorage());
  const { found, problems } = readOwn<AdmissionPolicy>('AdmissionPolicy', objects, registry);
  refuse(found.length === 0 && problems.length === 0 ? ['-p: no AdmissionPolicy was found'] : problems);
  const roles = found.flatMap(({ object: { metadata, spec } }) => {
    const kinds = uniqueBy([...namedKinds(spec), ...governed(spec)], groupResourceName).filter(
      ({ group, resource }) => group !== '*' && resource !== '*',
    );
    const { name = '' } = metadata;
    const needed = neededBy(spec);
    return [
      ...(kinds.length === 0 ? [] : [clusterRoleFor(name, kinds)]),
      ...(needed.length === 0 ? [] : [actionRoleFor(name, needed)]),
    ];
  });
  return roles.length === 0
    ? '# No policy names a kind: nothing to apply.\n'
    : roles.map((role) => `${role}\n`).join('---\n');
}
