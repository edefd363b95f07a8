/** `gatehouse generate types`: TypeScript interfaces from CustomResourceDefinitions. */
import { compareText, textIn } from '../../json/json.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { escapeControls } from '../../json/printable.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { describePlace, type PlacedObject, readObjects, refuse, UnusableInput } from '../review/input.ts';
import { createKinds, isDefinition } from '../review/kinds.ts';
import { interfacesOf, namedTypes, type NamedType } from './interfaces.ts';
import { answer } from './output.ts';

export interface TypesFlags {
  readonly recursive?: boolean;
  readonly out?: string;
}

export const types = (paths: readonly string[], { recursive = false, out }: TypesFlags): Promise<0 | 2> =>
  answer(out, () => {
    const definitions = readObjects(paths, { recursive }).filter(isDefinition);
    if (definitions.length > 0) return typesOf(definitions);
    throw new UnusableInput(`${paths.join(', ')}: no CustomResourceDefinition found`);
  });

/** @throws UnusableInput when the API server would reject a definition, or two would have the same name */
export function typesOf(definitions: readonly PlacedObject[]): string {
  const names = definitions.map(({ object }) => textIn(object, 'metadata', 'name'));
  refuse(
    definitions.flatMap(({ place }, index) => {
      const first = definitions[names.indexOf(names[index] ?? '')];
      return first === definitions[index] || first === undefined
        ? []
        : [`${describePlace(place)}: ${names[index]} is also in ${describePlace(first.place)}: remove one`];
    }),
  );
  const types = createKinds(definitions, createStorage())
    .registry.all()
    .filter((type) => type.custom && names.includes(groupResourceName(type)))
    .toSorted((a, b) => compareText(groupResourceName(a), groupResourceName(b)));
  const named = namedTypes(types);
  refuse(clashes(named).map((clash) => `${clash}: generate a file for each of them, with --out`));
  return escapeControls(interfacesOf(named));
}

/** Kinds of two groups, for example. */
const clashes = (named: readonly NamedType[]): readonly string[] =>
  [...Map.groupBy(named, ({ name }) => name)].flatMap(([name, all]) =>
    all.length === 1
      ? []
      : [
          `${all.map(({ type }) => groupResourceName(type)).join(' and ')} have the name ${name} in TypeScript`,
        ],
  );
