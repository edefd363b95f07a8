type Replacement = readonly [pattern: RegExp, shown: string];

/** Values that differ between runs. */
export const OF_A_RUN: readonly Replacement[] = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>'],
  [/^\d+[smh]$/g, '<age>'],
  [/\b10\.\d+\.\d+\.\d+/g, '<cluster ip>'],
  [/(localhost|127\.0\.0\.1|\[::1\]|svc):\d{4,5}/g, '$1:<port>'],
  [/dial tcp \S+ /g, 'dial tcp <address> '],
  [/([?&]resourceVersion=)(?!0\b|1\b|9{6})\d+/g, '$1<version>'],
  [/([?&]continue=)[^&]{20,}/g, '$1<continue>'],
  [/(too old resource version: )\d+ \(\d+\)/g, '$1<version>'],
  [/(current: |ResourceVersion in object meta: )\d+/g, '$1<version>'],
  [/(not decodable revision=)\d+/g, '$1<version>'],
  [/(ResourceVersion in (?:the precondition|record)) \(\d+\)/g, '$1 (<version>)'],
];

/** What the sandbox leaves out on purpose: no case is about it. */
export const LEFT_OUT: readonly Replacement[] = [
  [/, application\/(?:apply-patch\+)?cbor/g, ''],
  [/, application\/vnd\.kubernetes\.protobuf/g, ''],
  [/StorageError: .* AdditionalErrorMsg: /g, ''], // the protocol of etcd
];
