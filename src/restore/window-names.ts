/**
 * The names of the windows that Gatehouse itself opens. Users cannot choose such names: a window of a user must not be in
 * the way of a detected restore or of a full sweep.
 */

/** `<detector>-<12 hexadecimal digits>`, `rollback-<number>` and `startup-<number>`. */
const RESERVED = /-[0-9a-f]{12}$|^(?:rollback|startup)-\d/;

export const isReservedName = (name: string): boolean => RESERVED.test(name);

const DIGITS = 12;
const MAX_NAME_LENGTH = 253;
const MAX_LABEL_LENGTH = 63;

/**
 * The name of the window of a source. Every replica derives the same name.
 *
 * @param digest hexadecimal SHA-256
 * @param isTaken whether a window that does not belong to the source has this name
 */
export function detectedName(
  detector: string,
  uid: string,
  digest: (text: string) => string,
  isTaken: (name: string) => boolean,
): string {
  const prefix = shortened(detector, MAX_NAME_LENGTH - DIGITS - 1);
  for (let attempt = 0; ; attempt += 1) {
    const seed = attempt === 0 ? uid : `${uid}/${attempt}`;
    const name = `${prefix}-${digest(seed).slice(0, DIGITS)}`;
    if (!isTaken(name)) return name;
  }
}

/** The name as a label value, which is shorter than a name may be. */
export const toLabelValue = (name: string): string => shortened(name, MAX_LABEL_LENGTH);

/** Neither a name nor a label value ends with a hyphen or a dot. */
const shortened = (name: string, length: number): string => name.slice(0, length).replace(/[-.]+$/, '');
