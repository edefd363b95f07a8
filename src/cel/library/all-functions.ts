import { authorizer, selectors } from './authorizer.ts';
import { basics, conversions } from './conversions.ts';
import { cidr, containsCidr, ip } from './network.ts';
import type { CelFunction } from './define.ts';
import { format } from './named-formats.ts';
import { jsonpatch, strings } from './strings.ts';
import { extendedLists, lists, range, sets } from './lists.ts';
import { regex } from './regex.ts';
import { elements, optionals } from './optionals.ts';
import { quantity } from './quantity.ts';
import { semver } from './semver.ts';
import { stringFormat } from './string-format.ts';
import { times } from './times.ts';
import { url } from './url.ts';
import { operators } from './operators.ts';

/**
 * An API server accepts in new expressions what the release before it can evaluate, so a function that 1.30 introduced is
 * usable from 1.31 (k8s.io/apiserver pkg/cel/environment/base.go). What 1.37 introduced is not here: no release accepts it yet.
 */
const introducedIn = (minor: number, functions: readonly CelFunction[]): readonly CelFunction[] =>
  functions.map((one) => ({ ...one, since: minor + 1 }));

const everything: readonly CelFunction[] = [
  ...operators,
  ...basics,
  ...conversions,
  ...times,
  ...optionals,
  ...strings,
  ...stringFormat,
  ...lists,
  ...sets,
  ...regex,
  ...quantity,
  ...url,
  ...authorizer,
  ...introducedIn(30, [...ip, ...cidr]),
  ...introducedIn(31, [...format, ...selectors]),
  ...introducedIn(32, jsonpatch),
  // Before, it was false for a network inside another one.
  ...introducedIn(33, containsCidr),
  ...introducedIn(33, [...semver, ...elements]),
  ...introducedIn(34, extendedLists),
  // Before, it accepted other sizes.
  ...introducedIn(36, range),
];

/** All functions and operators of expressions, by name. */
export const functions: ReadonlyMap<string, readonly CelFunction[]> = Map.groupBy(
  everything,
  ({ name }) => name,
);
