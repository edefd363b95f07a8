const NOT_SERVED = 'the sandbox does not serve this kind or subresource';
const AUDIT_ANNOTATIONS =
  'the sandbox neither joins, cuts nor checks the audit annotations of several bindings';

/** Cases that the sandbox answers differently, each with the reason. */
export const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ...[
    'operations/connect-exec-denied',
    'operations/connect-exec-get-denied',
    'operations/connect-exec-options-fields',
    'operations/connect-exec-allowed-then-fails-later',
    'operations/connect-exec-no-pod',
    'operations/connect-attach-denied',
    'operations/connect-portforward-denied',
    'operations/connect-pod-proxy-denied',
    'operations/connect-service-proxy-denied',
    'operations/connect-node-proxy-denied',
    'operations/connect-object-selector-empty-matches',
    'operations/connect-object-selector-never-matches-options',
    'operations/connect-object-selector-does-not-exist',
    'operations/pod-ephemeralcontainers-denied',
    'operations/pod-resize-denied',
    'operations/pod-eviction-denied',
    'operations/pod-eviction-allowed-then-delete-denied',
    'operations/pod-binding-denied',
    'matching/resource-names-exec',
    'matching/match-policy-equivalent-built-in-converted',
    'messages/reason-on-cluster-scoped',
    'params/namespaced-without-namespace-on-cluster-scoped-request',
    'request/exec',
    'request/eviction',
    'request/cluster-scoped-create',
    'request/node-proxy',
    'request/options-exec-null',
    'namespace_object/cluster-scoped-null',
    'namespace_object/cluster-scoped-field-error',
    'namespace_object/exec',
    'status/two-resources-one-wrong',
    'status/eleven-resources',
  ].map((name) => [name, NOT_SERVED] as const),
  ['operations/serviceaccount-token-denied', 'the sandbox asks no policy about tokens'],
  ['status/crd-timestamp', 'the sandbox takes a date-time as the string that it is in a request'],
  ['status/two-warnings-in-one-expression', 'the sandbox shows the first error of an expression'],
  ['exemption/self-subject-rules-review', 'the sandbox lists rules in another order, and has no issuer'],
  [
    'native_param_cache/lease-second-policy-after-the-first-is-gone',
    'a real API server does not find a new Lease after the only policy with Leases as params is deleted',
  ],
]);
