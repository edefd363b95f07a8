/** What Gatehouse has to be allowed, read from the manifests that grant it: there is no second list. */
import type { AccessQuestion } from '../../../kube/access.ts';
import type { KubeObject } from '../../../json/kube-object.ts';

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** The fields of RBAC's four kinds that matter here. */
interface RbacObject extends KubeObject {
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly kind: string; readonly name: string }[];
}

/** The ServiceAccount that the manifests bind. */
const SHIPPED_ACCOUNT = 'gatehouse';

/**
 * A question for each verb, resource and name that a role in `manifests` gives to Gatehouse.
 *
 * @param namespace where Roles hold
 */
export function shippedAccess(
  manifests: readonly KubeObject[],
  namespace: string,
): readonly AccessQuestion[] {
  const objects: readonly RbacObject[] = manifests;
  const bindings = objects.filter(({ subjects = [] }) =>
    subjects.some(({ kind, name }) => kind === 'ServiceAccount' && name === SHIPPED_ACCOUNT),
  );
  return bindings.flatMap(({ kind: binding, roleRef }) => {
    const role = objects.find(
      ({ kind, metadata }) => kind === roleRef?.kind && metadata?.name === roleRef?.name,
    );
    const place = binding === 'RoleBinding' ? { namespace } : {};
    return (role?.rules ?? []).flatMap(questionsOf).map((question) => ({ ...question, ...place }));
  });
}

function questionsOf({
  apiGroups = [],
  resources = [],
  resourceNames = [],
  verbs,
}: Rule): readonly AccessQuestion[] {
  const names = resourceNames.length === 0 ? [{}] : resourceNames.map((name) => ({ name }));
  return apiGroups.flatMap((group) =>
    resources.flatMap((path) => {
      const [resource = '', subresource] = path.split('/');
      const what = { group, resource, ...(subresource === undefined ? {} : { subresource }) };
      return verbs.flatMap((verb) => names.map((name) => ({ verb, ...what, ...name })));
    }),
  );
}
