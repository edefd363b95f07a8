/** The policies of deploy/components/backstop, which limit the account of Gatehouse's controllers. */
import { join } from 'node:path';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Cluster } from './cluster.ts';
import type { AuditEvent } from './control-plane.ts';

const FOLDER = join(import.meta.dirname, '..', '..', 'deploy', 'components', 'backstop');

export const hasMutatingPolicies = ({ plane }: Pick<Cluster, 'plane'>): boolean => plane.version.minor >= 36;

interface Policy extends KubeObject {
  readonly spec?: { readonly variables?: readonly Variable[] };
}
interface Variable {
  readonly name: string;
  readonly expression: string;
}

/** @param compat the variables that the components openshift-compat and cert-manager-compat set to `true` */
export async function applyBackstop(
  { apply }: Pick<Cluster, 'apply'>,
  compat: readonly ('openshift' | 'certManager')[] = [],
): Promise<void> {
  await apply(...readManifests(FOLDER).map((policy) => withCompat(policy, compat)));
}

function withCompat(policy: Policy, compat: readonly string[]): Policy {
  const { variables } = policy.spec ?? {};
  if (variables === undefined) return policy;
  const changed = variables.map((one) => (compat.includes(one.name) ? { ...one, expression: 'true' } : one));
  return { ...policy, spec: { ...policy.spec, variables: changed } };
}

/** The refused writes of Gatehouse's own accounts: each is a case where writer and backstop disagree. */
export function refusedByBackstop(log: readonly AuditEvent[]): readonly string[] {
  const refused = log.filter(
    ({ user, impersonatedUser, responseStatus }) =>
      impersonatedUser === undefined &&
      user.username.startsWith('system:serviceaccount:gatehouse-system:') &&
      responseStatus?.message?.includes("ValidatingAdmissionPolicy 'gatehouse-backstop-") === true,
  );
  const lines = refused.map(
    ({ verb, requestURI, responseStatus }) => `${verb} ${requestURI}: ${responseStatus?.message ?? ''}`,
  );
  return [...new Set(lines)];
}
