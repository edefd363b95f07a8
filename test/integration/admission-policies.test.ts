/** Recorded answers of kube-apiserver 1.37 about admission policies, except those about mutations only. */
import { testRecorded } from '../support/native/recorded-suite.ts';

const NOT_SERVED = 'the sandbox does not serve this kind or subresource';

/** Cases that the sandbox answers differently, each with the reason. */
const EXCEPTIONS: ReadonlyMap<string, string> = new Map([
  ...[
    'operations/pod-resize-denied',
    'matching/match-policy-equivalent-built-in-converted',
    'status/two-resources-one-wrong',
    'status/eleven-resources',
  ].map((name) => [name, NOT_SERVED] as const),
  ['status/two-warnings-in-one-expression', 'the sandbox shows the first error of an expression'],
  ['exemption/self-subject-rules-review', 'the sandbox lists rules in another order and without an issuer'],
]);

testRecorded(({ name }) => !name.startsWith('mutating_'), EXCEPTIONS);
