import { CelError } from '../cel-error.ts';
import { define } from './define.ts';

/** Only the API server can ask its authorizer: elsewhere, these functions have types but no values. */
const ask = (): never => {
  throw new CelError('the authorizer is available in the API server only');
};

/** The authorizer of match conditions (k8s.io/apiserver/pkg/cel/library/authz.go). */
export const authorizer = [
  define('<authorizer>.path(string): pathCheck', ask),
  define('<authorizer>.group(string): groupCheck', ask),
  define('<authorizer>.serviceAccount(string, string): authorizer', ask),
  define('<groupCheck>.resource(string): resourceCheck', ask),
  define('<resourceCheck>.subresource(string): resourceCheck', ask),
  define('<resourceCheck>.namespace(string): resourceCheck', ask),
  define('<resourceCheck>.name(string): resourceCheck', ask),
  define('<resourceCheck>.fieldSelector(string): resourceCheck', ask),
  define('<resourceCheck>.labelSelector(string): resourceCheck', ask),
  define('<pathCheck>.check(string): decision', ask),
  define('<resourceCheck>.check(string): decision', ask),
  define('<decision>.allowed(): bool', ask),
  define('<decision>.reason(): string', ask),
  define('<decision>.errored(): bool', ask),
  define('<decision>.error(): string', ask),
];
