import { authorizer } from './authorizer.ts';
import { basics, conversions } from './conversions.ts';
import { cidr, ip } from './network.ts';
import type { CelFunction } from './define.ts';
import { format } from './named-formats.ts';
import { jsonpatch, strings } from './strings.ts';
import { lists, sets } from './lists.ts';
import { regex } from './regex.ts';
import { optionals } from './optionals.ts';
import { quantity } from './quantity.ts';
import { semver } from './semver.ts';
import { stringFormat } from './string-format.ts';
import { times } from './times.ts';
import { url } from './url.ts';
import { operators } from './operators.ts';

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
  ...ip,
  ...cidr,
  ...semver,
  ...format,
  ...jsonpatch,
  ...authorizer,
];

/** All functions and operators of expressions, by name. */
export const functions: ReadonlyMap<string, readonly CelFunction[]> = Map.groupBy(
  everything,
  ({ name }) => name,
);
