/** The fields of a package-lock.json entry that show who needs the package. */
export interface LockEntry {
  readonly dev?: boolean;
  readonly devOptional?: boolean;
}

/** The entries that `npm ci --omit=dev` installs, by path. The path of the root package is empty. */
export function productionEntries<Entry extends LockEntry>(lock: {
  readonly packages: Readonly<Record<string, Entry>>;
}): readonly (readonly [path: string, entry: Entry])[] {
  return Object.entries(lock.packages).filter(
    ([, { dev = false, devOptional = false }]) => !dev && !devOptional,
  );
}

/** The names of these packages in package-lock.json: `name`, or `name/node_modules/other`. */
export function productionPackages(lock: string): readonly string[] {
  const parsed = JSON.parse(lock) as { readonly packages: Readonly<Record<string, LockEntry>> }; // npm writes this file
  return productionEntries(parsed)
    .filter(([path]) => path !== '')
    .map(([path]) => path.replace(/^node_modules\//, ''));
}
