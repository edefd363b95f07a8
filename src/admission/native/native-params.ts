import type { CompiledPolicy } from '../policy/compiled-policy.ts';

/** Why rules that read params stay in the webhook; undefined: the API server reads them with the same meaning. */
export function paramsProblem({ params, match }: CompiledPolicy): string | undefined {
  if (params === undefined) return undefined;
  const { whenMissing, version, target } = params;
  if (whenMissing === 'Deny')
    return (
      'whenMissing is Deny: while params are missing, the API server would refuse every request in scope, ' +
      'also of restorers and about objects in deletion'
    );
  if (match.matchConditions.length > 0)
    return 'a request whose matchConditions fail must be refused, and the API server skips the policy while params are missing';
  if (version === undefined) return `the version of ${target.resource} is not known`;
  if (isBuiltIn(target.group))
    return `it reads params of a built-in kind: kube-apiserver can miss changes of a ${params.kind} after another policy is gone`;
  return undefined;
}

/** Groups of the project end in k8s.io; the older ones have no dot. */
const isBuiltIn = (group: string): boolean => !group.includes('.') || group.endsWith('.k8s.io');

export function paramFields({ params }: CompiledPolicy) {
  if (params === undefined) return { ofPolicy: {}, ofBinding: {} };
  const { target, version = '', kind, name, namespace } = params;
  return {
    ofPolicy: { paramKind: { apiVersion: `${target.group}/${version}`, kind } },
    ofBinding: {
      paramRef: {
        name,
        ...(namespace === undefined ? {} : { namespace }),
        parameterNotFoundAction: 'Allow',
      },
    },
  };
}

/** Whether the params are in the namespace of the checked object: the API server finds none for a cluster-scoped one. */
export const readsOwnNamespace = ({ params }: CompiledPolicy): boolean =>
  params?.namespaced === true && params.namespace === undefined;
