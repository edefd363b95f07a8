import { basics, conversions } from './library/conversions.ts';
import { cidr } from './library/cidr.ts';
import type { CelFunction } from './library/define.ts';
import { format } from './library/format.ts';
import { ip } from './library/ip.ts';
import { jsonpatch } from './library/jsonpatch.ts';
import { lists } from './library/lists.ts';
import { matches } from './library/matches.ts';
import { optionals } from './library/optionals.ts';
import { quantity } from './library/quantity.ts';
import { regex } from './library/regex.ts';
import { semver } from './library/semver.ts';
import { sets } from './library/sets.ts';
import { stringFormat } from './library/string-format.ts';
import { strings } from './library/strings.ts';
import { times } from './library/times.ts';
import { url } from './library/url.ts';
import { operators } from './operators.ts';

const everything: readonly CelFunction[] = [
  ...operators,
  ...basics,
  ...matches,
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
];

/** All that expressions can call, operators included, by name. */
export const functions: ReadonlyMap<string, readonly CelFunction[]> = Map.groupBy(
  everything,
  ({ name }) => name,
);
