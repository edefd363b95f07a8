import { type CelType, parameter } from './type.ts';
import {
  CEL_TYPE,
  isDuration,
  isList,
  isMap,
  isOptional,
  isTagged,
  isTimestamp,
  isTypeValue,
  isUint,
} from '../values/values.ts';

export type ValueTest = (value: unknown) => boolean;

const NAMED: ReadonlyMap<string, ValueTest> = new Map<string, ValueTest>([
  ['bool', (value) => typeof value === 'boolean'],
  ['int', (value) => typeof value === 'bigint'],
  ['uint', isUint],
  ['double', (value) => typeof value === 'number'],
  ['string', (value) => typeof value === 'string'],
  ['bytes', (value) => value instanceof Uint8Array],
  ['null', (value) => value === null],
  ['timestamp', isTimestamp],
  ['type', isTypeValue],
  ['duration', isDuration],
]);

function listTest(element: CelType): ValueTest {
  if (element.kind === 'dyn' || element.kind === 'variable') return isList;
  const isElement = valueTest(element);
  return (value) => isList(value) && (value.length === 0 || isElement(value[0]));
}

/** Whether a value has the type at evaluation. Inspects only the first element of a list, as the API server does. */
export function valueTest(type: CelType): ValueTest {
  switch (type.kind) {
    case 'dyn':
    case 'variable':
      return () => true;
    case 'named':
      return NAMED.get(type.name) ?? ((value) => isTagged(value) && value[CEL_TYPE] === type.name);
    case 'list':
      return listTest(parameter(type));
    case 'map':
    case 'object':
      return isMap;
    case 'optional':
      return isOptional;
    case 'type':
      return isTypeValue;
  }
}
