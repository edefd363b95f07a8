import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { isOfCustomKinds } from './changes/built-in-fields.ts';

/** Why the webhook keeps rules that read params; undefined: the API server reads them with the same meaning. */
export function paramsProblem({ params, match }: CompiledPolicy): string | undefined {
  if (params === undefined) return undefined;
  const { whenMissing, version, target } = params;
  if (whenMissing === 'Deny')
    return (
      'whenMissing is Deny: while params are missing, the API server would refuse every request in scope, ' +
      'even of restorers and about objects in deletion'
    );
  if (match.matchConditions.length > 0)
    return 'a request whose matchConditions fail must be refused, and the API server skips the policy while params are missing';
  if (version === undefined) return `the version of ${target.resource} is not known`;
  if (!isOfCustomKinds(target.group))
    return `it reads params of a built-in kind: kube-apiserver can miss changes of a ${params.kind} after another policy is deleted`;
  return undefined;
}

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

/** Whether the params are in the checked object's namespace. The API server finds none for a cluster-scoped object. */
export const readsOwnNamespace = ({ params }: CompiledPolicy): boolean =>
  params?.namespaced === true && params.namespace === undefined;
