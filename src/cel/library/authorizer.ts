import { CelError } from '../cel-error.ts';
import { CEL_TYPE, type CelOpaque } from '../values/values.ts';
import { define } from './define.ts';

/** What an expression asks the authorizer about its user. */
export interface CelCheck {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
}

/** Whether the user of the request may do something. */
export type CelAuthorize = (check: CelCheck) => { readonly allowed: boolean; readonly reason: string };

interface Asking extends CelOpaque {
  readonly ask: CelAuthorize;
  readonly check: CelCheck;
}

interface Decision extends CelOpaque {
  readonly allowed: boolean;
  readonly reason: string;
}

const EMPTY: CelCheck = { verb: '', group: '', resource: '', subresource: '', namespace: '', name: '' };

const asking = (type: string, ask: CelAuthorize, check: CelCheck): Asking => ({
  [CEL_TYPE]: `kubernetes.authorization.${type}`,
  identity: JSON.stringify(check),
  ask,
  check,
});

/** The value of the variable `authorizer`. */
export const celAuthorizer = (ask: CelAuthorize): object => asking('Authorizer', ask, EMPTY);

/** The value of the variable `authorizer.requestResource`. */
export const celResourceCheck = (ask: CelAuthorize, check: Omit<CelCheck, 'verb'>): object =>
  asking('ResourceCheck', ask, { ...EMPTY, ...check });

/** The value tests guarantee the type of the receiver. */
const more =
  (type: string, key: keyof CelCheck) =>
  (receiver: unknown, value: string): Asking => {
    const { ask, check } = receiver as Asking;
    return asking(type, ask, { ...check, [key]: value });
  };

function decide(receiver: unknown, verb: string): Decision {
  const { ask, check } = receiver as Asking;
  const { allowed, reason } = ask({ ...check, verb });
  const identity = JSON.stringify([allowed, reason]);
  return { [CEL_TYPE]: 'kubernetes.authorization.Decision', identity, allowed, reason };
}

const unavailable = (): never => {
  throw new CelError('the authorizer is available in the API server only');
};

/** The API server's cost of a check (k8s.io/apiserver/pkg/cel/library/cost.go). */
const CHECK_COST = 350_000;

/** The authorizer of expressions about requests (k8s.io/apiserver/pkg/cel/library/authz.go). */
export const authorizer = [
  define('<authorizer>.path(string): pathCheck', unavailable),
  define('<authorizer>.group(string): groupCheck', more('GroupCheck', 'group')),
  define('<authorizer>.serviceAccount(string, string): authorizer', unavailable),
  define('<groupCheck>.resource(string): resourceCheck', more('ResourceCheck', 'resource')),
  define('<resourceCheck>.subresource(string): resourceCheck', more('ResourceCheck', 'subresource')),
  define('<resourceCheck>.namespace(string): resourceCheck', more('ResourceCheck', 'namespace')),
  define('<resourceCheck>.name(string): resourceCheck', more('ResourceCheck', 'name')),
  define('<resourceCheck>.fieldSelector(string): resourceCheck', unavailable),
  define('<resourceCheck>.labelSelector(string): resourceCheck', unavailable),
  define('<pathCheck>.check(string): decision', unavailable),
  define('<resourceCheck>.check(string): decision', decide, () => CHECK_COST),
  define('<decision>.allowed(): bool', (decision) => (decision as Decision).allowed),
  define('<decision>.reason(): string', (decision) => (decision as Decision).reason),
  define('<decision>.errored(): bool', () => false),
  define('<decision>.error(): string', () => ''),
];
