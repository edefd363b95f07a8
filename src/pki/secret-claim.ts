/** Several Services may name one Secret. Every replica has to give it to the same one, and to go on doing so. */

export interface SecretClaim {
  readonly name: string;
  readonly uid: string;
  /** RFC 3339; undefined for a Service that no API server has seen. */
  readonly createdAt: string | undefined;
  /** Gatehouse's own Service: it goes before all others, or anybody could take its webhooks down. */
  readonly own: boolean;
}

/** The claim that holds: that of the older Service; of two of one second, that of the smaller uid. Undefined of none. */
export function firstClaim<Claim extends SecretClaim>(claims: readonly Claim[]): Claim | undefined {
  return claims.reduce<Claim | undefined>(
    (first, claim) => (first === undefined || goesBefore(claim, first) ? claim : first),
    undefined,
  );
}

export function goesBefore(a: SecretClaim, b: SecretClaim): boolean {
  if (a.own !== b.own) return a.own;
  const [left, right] = [timeOf(a), timeOf(b)];
  return left === right ? a.uid < b.uid : left < right;
}

function timeOf({ createdAt }: SecretClaim): number {
  const time = Date.parse(createdAt ?? '');
  return Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}
