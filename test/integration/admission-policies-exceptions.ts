const NOT_SERVED = 'the sandbox does not serve this kind or subresource';

/** Cases that the sandbox answers differently, each with the reason. */
export const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ...[
    'operations/pod-resize-denied',
    'matching/match-policy-equivalent-built-in-converted',
    'status/two-resources-one-wrong',
    'status/eleven-resources',
  ].map((name) => [name, NOT_SERVED] as const),
  ['status/two-warnings-in-one-expression', 'the sandbox shows the first error of an expression'],
  ['exemption/self-subject-rules-review', 'the sandbox lists rules in another order, and has no issuer'],
  ...[
    'actions/two-failures-audit',
    'actions/two-failures-warn-audit',
    'actions/two-failures-deny-audit',
    'actions/two-bindings-both-audit',
    'several/audit-failures-of-both',
    'params/selector-one-fails-warn',
  ].map((name) => [name, 'before 1.37, the audit annotation held one failure only'] as const),
  [
    'native_param_cache/lease-second-policy-after-the-first-is-gone',
    'before 1.37, an API server did not find a new Lease after the only policy with Leases as params was deleted',
  ],
]);
