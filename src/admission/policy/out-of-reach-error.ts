/** Gatehouse does not read the object, and a retry gets the same result. The message is a clause for users. */
export class OutOfReachError extends Error {
  override readonly name = 'OutOfReachError';
}
