/** What a Service is told when its Secret is not written. */

export type Refusal =
  | { readonly kind: 'foreign' | 'wrong-type' | 'immutable' | 'namespace-ends' }
  /** An older Service has it. */
  | { readonly kind: 'taken'; readonly by: string }
  /** The API server will not have it. */
  | { readonly kind: 'write-refused'; readonly message: string }
  /** The clocks disagree. */
  | { readonly kind: 'clock'; readonly message: string }
  /** The key stores cannot be made; the rest is. */
  | { readonly kind: 'no-password'; readonly secretName: string; readonly key: string };

/** For an Event: a reason of one word, and a sentence that says what to do. */
export function toldOf(
  refusal: Refusal,
  secretName: string,
): { readonly reason: string; readonly message: string } {
  switch (refusal.kind) {
    case 'foreign':
      return {
        reason: 'ForeignSecret',
        message:
          `secret ${secretName} belongs to someone else and is left alone: name another one, delete it, or allow that it is taken ` +
          'over with the annotation gatehouse.dev/serving-cert-adopt on it, with the name of this Service',
      };
    case 'taken':
      return {
        reason: 'SecretTaken',
        message: `secret ${secretName} is that of the older Service ${refusal.by}: name another one`,
      };
    case 'wrong-type':
      return {
        reason: 'SecretTypeConflict',
        message: `secret ${secretName} is not of type kubernetes.io/tls, which cannot be changed: delete it${ON_REQUEST}`,
      };
    case 'immutable':
      return {
        reason: 'SecretImmutable',
        message: `secret ${secretName} is immutable: delete it${ON_REQUEST}, and it will be made again`,
      };
    case 'write-refused':
      return { reason: 'WriteRefused', message: `secret ${secretName} is not written: ${refusal.message}` };
    case 'clock':
      return {
        reason: 'ClockSkewed',
        message: `no serving cert is made for secret ${secretName}: ${refusal.message}`,
      };
    case 'namespace-ends':
      return {
        reason: 'NamespaceTerminating',
        message: `secret ${secretName} is not made: its namespace is going`,
      };
    case 'no-password':
      return {
        reason: 'KeystorePasswordMissing',
        message:
          `secret ${secretName} gets no key stores: secret ${refusal.secretName} with their password does not exist or has no ` +
          `key ${refusal.key}`,
      };
  }
}

const ON_REQUEST =
  ', or have Gatehouse do so with gatehouse.dev/serving-cert-replace-secret: "true" on this Service';
