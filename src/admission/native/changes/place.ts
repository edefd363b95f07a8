/** Places in an object, for JSON patches of the API server. */
import { pointerPart } from '../../../json/json-patch.ts';

/** A value in the object, and the JSON pointer to it. Both are CEL. */
export interface Place {
  readonly value: string;
  readonly pointer: readonly string[];
}

export const ROOT: Place = { value: 'object', pointer: [] };

export const below = ({ value, pointer }: Place, access: string, part: string): Place => ({
  value: `${value}${access}`,
  pointer: [...pointer, part],
});

/** The member of a map. */
export const memberOf = (place: Place, name: string): Place =>
  below(place, `[${JSON.stringify(name)}]`, JSON.stringify(pointerPart(name)));

/** One patch, as CEL. */
export const patch = (op: 'add' | 'remove', { pointer }: Place, value?: string): string =>
  `JSONPatch{op: "${op}", path: ${pointer.join(' + ')}${value === undefined ? '' : `, value: ${value}`}}`;
