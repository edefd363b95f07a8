import { memoizeWeak } from '../../../json/objects.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { CompiledExpression, Reads } from './expression.ts';

/** Which variables of an expression come from the cluster. */
export type ClusterReads = Pick<Reads, 'authorizer' | 'namespaceObject' | 'params' | 'refs'>;

type Expressions = Pick<CompiledPolicy, 'defaults' | 'mutations' | 'rules' | 'warnings' | 'auditAnnotations'>;

export const readsCluster = ({ authorizer, namespaceObject, params, refs }: ClusterReads): boolean =>
  authorizer || namespaceObject || params || refs.size > 0;

/** What the expressions of defaults and mutations read. */
export const changesRead = memoised(({ defaults, mutations }) => [
  ...defaults.map((rule) => (rule.kind === 'expression' ? rule.expression : undefined)),
  ...mutations.flatMap(({ condition, change }) => [condition, change]),
]);

/** What the expressions of rules, warnings and audit annotations read. */
export const checksRead = memoised(({ rules, warnings, auditAnnotations }) => [
  ...rules.flatMap(({ expression, messageExpression }) => [expression, messageExpression]),
  ...warnings.flatMap(({ condition, messageExpression }) => [condition, messageExpression]),
  ...auditAnnotations.map(({ value }) => value),
]);

function memoised(expressionsOf: (policy: Expressions) => readonly (CompiledExpression | undefined)[]) {
  return memoizeWeak((policy: Expressions): ClusterReads =>
    allReads(expressionsOf(policy).flatMap((one) => one?.reads ?? [])),
  );
}

/** What at least one of the expressions reads. */
export const allReads = (all: readonly Reads[]): Reads => ({
  oldObject: all.some(({ oldObject }) => oldObject),
  request: all.some(({ request }) => request),
  authorizer: all.some(({ authorizer }) => authorizer),
  namespaceObject: all.some(({ namespaceObject }) => namespaceObject),
  params: all.some(({ params }) => params),
  refs: new Set(all.flatMap(({ refs }) => [...refs])),
});
