import { isDnsLabel, isDnsSubdomain } from '../../json/kube-object.ts';
import { CelError } from '../cel-error.ts';
import { CEL_TYPE, type CelOpaque } from '../values/values.ts';
import { define } from './define.ts';

interface OfSubject {
  readonly serviceAccount?: { readonly namespace: string; readonly name: string };
}

/** A question of an expression about a resource. Empty strings mean the same as in a SubjectAccessReview. */
export interface CelResourceQuestion extends OfSubject {
  readonly kind: 'resource';
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

interface CelPathQuestion extends OfSubject {
  readonly kind: 'path';
  readonly verb: string;
  readonly path: string;
}

export type CelQuestion = CelResourceQuestion | CelPathQuestion;

export interface CelDecision {
  readonly allowed: boolean;
  readonly reason: string;
  /** What the authorizer could not evaluate; absent or empty: nothing. */
  readonly error?: string;
}

export type CelAuthorize = (question: CelQuestion) => CelDecision;

interface Asking extends CelOpaque {
  readonly ask: CelAuthorize;
  readonly question: CelQuestion;
}

interface Decision extends CelOpaque {
  readonly decision: CelDecision;
}

const EMPTY: CelResourceQuestion = {
  kind: 'resource',
  verb: '',
  group: '',
  resource: '',
  subresource: '',
  namespace: '',
  name: '',
};

const asking = (type: string, ask: CelAuthorize, question: CelQuestion): Asking => ({
  [CEL_TYPE]: `kubernetes.authorization.${type}`,
  identity: JSON.stringify(question),
  ask,
  question,
});

/** The variables of a request for this resource. */
export const authorizerValues = (
  ask: CelAuthorize,
  { group, resource }: Pick<CelResourceQuestion, 'group' | 'resource'>,
  place: Pick<CelResourceQuestion, 'subresource' | 'namespace' | 'name'>,
): Readonly<Record<string, object>> => ({
  authorizer: asking('Authorizer', ask, EMPTY),
  'authorizer.requestResource': asking('ResourceCheck', ask, { ...EMPTY, group, resource, ...place }),
});

type Text = Exclude<keyof CelResourceQuestion, 'kind' | 'serviceAccount'>;

const more =
  (type: string, key: Text) =>
  (receiver: unknown, value: string): Asking => {
    const { ask, question } = receiver as Asking;
    if (key === 'resource' && value.trim() === '') throw new CelError('resource must not be empty');
    return asking(type, ask, { ...question, [key]: value });
  };

function pathOf(receiver: unknown, path: string): Asking {
  const { ask, question } = receiver as Asking;
  if (path.trim() === '') throw new CelError('path must not be empty');
  const { serviceAccount } = question;
  const subject = serviceAccount === undefined ? {} : { serviceAccount };
  return asking('PathCheck', ask, { kind: 'path', verb: '', path, ...subject });
}

function accountOf(receiver: unknown, namespace: string, name: string): Asking {
  const { ask, question } = receiver as Asking;
  if (!isDnsSubdomain(name)) throw new CelError('Invalid service account name');
  if (!isDnsLabel(namespace)) throw new CelError('Invalid service account namespace');
  return asking('Authorizer', ask, { ...question, serviceAccount: { namespace, name } });
}

function decide(receiver: unknown, verb: string): Decision {
  const { ask, question } = receiver as Asking;
  const decision = ask({ ...question, verb });
  return { [CEL_TYPE]: 'kubernetes.authorization.Decision', identity: JSON.stringify(decision), decision };
}

const decisionOf = (value: unknown): CelDecision => (value as Decision).decision;

/** The API server's cost of a check, which allows two for each expression (k8s.io/apiserver/pkg/cel/library/cost.go). */
export const CHECK_COST = 350_000;

/** The authorizer of expressions about requests (k8s.io/apiserver/pkg/cel/library/authz.go). */
export const authorizer = [
  define('<authorizer>.path(string): pathCheck', pathOf),
  define('<authorizer>.group(string): groupCheck', more('GroupCheck', 'group')),
  define('<authorizer>.serviceAccount(string, string): authorizer', accountOf),
  define('<groupCheck>.resource(string): resourceCheck', more('ResourceCheck', 'resource')),
  define('<resourceCheck>.subresource(string): resourceCheck', more('ResourceCheck', 'subresource')),
  define('<resourceCheck>.namespace(string): resourceCheck', more('ResourceCheck', 'namespace')),
  define('<resourceCheck>.name(string): resourceCheck', more('ResourceCheck', 'name')),
  define('<pathCheck>.check(string): decision', decide),
  define('<resourceCheck>.check(string): decision', decide),
  define('<decision>.allowed(): bool', (decision) => decisionOf(decision).allowed),
  define('<decision>.reason(): string', (decision) => decisionOf(decision).reason),
  define('<decision>.errored(): bool', (decision) => (decisionOf(decision).error ?? '') !== ''),
  define('<decision>.error(): string', (decision) => decisionOf(decision).error ?? ''),
];

export const selectors = [
  define('<resourceCheck>.fieldSelector(string): resourceCheck', more('ResourceCheck', 'fieldSelector')),
  define('<resourceCheck>.labelSelector(string): resourceCheck', more('ResourceCheck', 'labelSelector')),
];
