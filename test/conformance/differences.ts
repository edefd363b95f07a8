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

/**
 * Messages that changed between 1.20 and 1.36 without a change in meaning; the later or the common words are kept.
 */
export const OF_A_RELEASE: readonly Replacement[] = [
  [/FieldValueTypeInvalid/g, 'FieldValueInvalid'], // a wrong type has its own reason since 1.23
  [/(failed calling webhook "[^"]+": )(?:failed to call webhook|received invalid webhook response): /g, '$1'], // 1.22
  [/no more than (\d+) bytes/g, 'no more than $1 characters'], // 1.32
  [
    /Too long: (?:must have at most|may not be longer than|may not be more than) (\d+)(?: bytes)?/g,
    'Too long: $1',
  ], // 1.32
  [/: (?:name|uid) must not be empty/g, ': must not be empty'], // of ownerReferences
  [/Invalid value: 0x0:/g, 'Invalid value: 0:'], // numbers, because values are printed as JSON
  [
    /the namespace of the object \(\S+\) does not match the namespace on the request \(\S+\)/g,
    'the namespace of the provided object does not match the namespace sent on the request',
  ], // 1.21, rest.EnsureObjectNamespaceMatchesRequestNamespace
  [/set x-preserve-unknown-fields/g, 'set x-kubernetes-preserve-unknown-fields'],
  [
    /must appear in spec\.versions|missing from spec\.versions; .*? from status\.storedVersions/g,
    'missing from spec.versions',
  ],
  [/, application\/(?:apply-patch\+)?cbor/g, ''], // since 1.32, behind a gate
  [/, application\/vnd\.kubernetes\.protobuf/g, ''], // no case is about protobuf
  [/StorageError: .* AdditionalErrorMsg: /g, ''], // the protocol of etcd
];
