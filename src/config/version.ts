/** The version in package.json, repeated here because not every build contains that file. A test compares them. */
export const VERSION = '0.1.0';

/** A page of the documentation of this version, e.g. `status.md`. */
export const docsUrl = (page: string): string =>
  `https://github.com/gatehouse-dev/gatehouse/blob/v${VERSION}/docs/${page}`;
