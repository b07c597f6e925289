/* See check_explain.h. */
#include "cli/check_explain.h"

#include "cli/page.h"
#include "config/conditions.h"
#include "pipeline/imports.h"

/* FILE:LINE, or which variable or flag. */
static void put_place(struct page *page, struct position at)
{
    if (at.line > 0)
        put(page, "%s:%u", at.file, at.line);
    else if (strncmp(at.file, "--", 2) == 0 || (at.file[0] == '-' && at.file[1] != '\0'))
        put(page, "flag %s", at.file);
    else if (strcmp(at.file, "default") == 0)
        put(page, "default");
    else
        put(page, "environment %s", at.file);
}

/* By which variables; what they hold is not shown. */
static void put_origin(struct page *page, const struct value *value)
{
    if (value && value->origin.size > 0)
        put(page, ", %.*s", COORD_FMT(value->origin));
}

static void put_source(struct page *page, const struct value *value)
{
    if (value->source == VALUE_INHERITED)
        put(page, "inherited from %s%s", value->param->inherits, value->at.line > 0 ? " at " : ", ");
    put_place(page, value->at);
    put_origin(page, value);
}

static void put_value(struct page *page, const struct value *value, const char *indent)
{
    put(page, "%s%s: ", indent, value->param->name);
    if (value->source == VALUE_ABSENT) {
        put(page, "not set\n");
        return;
    }
    if (value->environment)
        put(page, "[secret]");
    else
        page->good = page->good && value_print(value, page->out);
    put(page, " (");
    put_source(page, value);
    put(page, ")\n");
}

static void put_conditions(struct page *page, const struct conditions *conditions, const char *otherwise)
{
    if (!conditions->given) {
        put(page, "%s\n", otherwise);
        return;
    }
    page->good = page->good && conditions_print(conditions, page->out);
    put(page, " (");
    put_place(page, conditions->at);
    put(page, ")\n");
}

/* ---- Gateways ---- */

static const char *transport_of(const struct gateway_settings *gateway)
{
    switch ((enum upstream_transport)gateway->transport) {
    case UPSTREAM_DIRECT:
        return "direct (gateway.transport is direct)";
    case UPSTREAM_CURL:
        return "libcurl (gateway.transport is curl)";
    case UPSTREAM_AUTO:
        break;
    }
    return url_is_secure(gateway->address) ? "libcurl (gateway.transport is auto, and the URL is https)"
                                           : "direct (gateway.transport is auto, and the URL is http)";
}

/* What stands behind the host of an address from the environment is not shown. */
static coord_slice shown_address(const struct gateway_settings *gateway)
{
    coord_slice address = gateway->address;
    size_t scheme = url_is_secure(gateway->address) ? strlen("https://") : strlen("http://");
    const char *path;

    if (!gateway->address_secret || address.size <= scheme)
        return address;
    path = memchr(address.data + scheme, '/', address.size - scheme);
    return path ? (coord_slice){address.data, (size_t)(path - address.data)} : address;
}

static void put_gateway(struct page *page, const struct gateway_settings *gateway)
{
    if (!gateway) {
        put(page, "  gateway: none\n");
        return;
    }
    put(page, "  gateway: %.*s, %.*s (", COORD_FMT(gateway->name), COORD_FMT(shown_address(gateway)));
    put_place(page, gateway->address_at);
    put_origin(page, config_find(&gateway->values, "address"));
    put(page, ")\n  transport: %s\n", transport_of(gateway));
}

/* ---- Steps ---- */

static void put_names(struct page *page, const char *what, const char *const *names)
{
    put(page, "    %s:", what);
    for (size_t i = 0; names && names[i]; i++)
        put(page, "%s %s", i ? "," : "", names[i]);
    put(page, "%s\n", names && names[0] ? "" : " nothing");
}

static void put_params(struct page *page, const struct coord_config *config, const char *heading)
{
    put(page, "    %s%s\n", heading, config->count == 0 ? " none" : "");
    for (size_t i = 0; i < config->count; i++)
        put_value(page, &config->values[i], "      ");
}

static void put_connectors(struct page *page, const struct step *step)
{
    size_t at = 1;

    for (size_t which = 0; which < 2; which++) {
        const struct connector_kind *kind = step->kinds[which];

        if (!kind)
            continue;
        put(page, "    connector %s of plugin %s %s\n", kind->type.name, kind->plugin->name, kind->plugin->version);
        if (step->configs[at].count > 0)
            put_params(page, &step->configs[at], "its params:");
        at++;
    }
}

static void put_timeout(struct page *page, const struct step_entry *entry)
{
    if (entry->timeout_ns == 0)
        put(page, "    timeout: none but those of its legs\n");
    else if (entry->timeout_secret)
        put(page, "    timeout: [secret]\n");
    else
        put(page, "    timeout: %gs\n", (double)entry->timeout_ns / 1e9);
}

static void put_step(struct page *page, const struct step *step)
{
    const struct step_entry *entry = step->entry;

    put(page, "  step %s (type %s of plugin %s %s, ", step->id, step->kind->type.name, step->kind->plugin->name,
        step->kind->plugin->version);
    put_place(page, entry->at);
    put(page, ")\n    when: ");
    put_conditions(page, &entry->when, "always");
    put_timeout(page, entry);
    put(page, "    on_error: %s\n", entry->continues ? "continue" : "fail");
    put_names(page, "needs", step->kind->type.needs);
    put_names(page, "provides", step->kind->type.provides);
    put_params(page, &step->config, "params:");
    put_connectors(page, step);
}

/* ---- Writers ---- */

/* Steps wrap them while they run; whether one can is told by what its plugin takes from the library. */
static bool may_wrap(const struct step *step)
{
    static const char *const wrapping[] = {"coord_request_wrap", "coord_usage_observe", "coord_usage_edit", NULL};

    return imports_any(step->kind->plugin->file, wrapping) != IMPORTS_NONE;
}

static void put_writers(struct page *page, const struct pipeline *pipeline)
{
    size_t count = 0;

    put(page, "  writers: ");
    for (size_t i = pipeline->step_count; i-- > 0;)
        if (may_wrap(&pipeline->steps[i]))
            put(page, "%s%s", count++ ? ", then " : "an answer's bytes pass those of step ", pipeline->steps[i].id);
    if (count == 0)
        put(page, "no step can wrap one\n");
    else
        put(page, ", then go to the client\n"
                  "    which of these steps wrap one, and how many, is known only when a request is served: "
                  "`coordinator explain`\n");
}

static void put_pipeline(struct page *page, const struct pipeline *pipeline)
{
    const struct pipeline_settings *settings = pipeline->settings;

    put(page, "pipeline %.*s (", COORD_FMT(settings->name));
    put_place(page, settings->at);
    put(page, ")\n  match: ");
    put_conditions(page, &settings->match, "every request");
    put_gateway(page, settings->gateway);
    for (size_t i = 0; i < settings->values.count; i++)
        if (settings->values.values[i].source != VALUE_ABSENT)
            put_value(page, &settings->values.values[i], "  ");
    for (size_t i = 0; i < pipeline->step_count; i++)
        put_step(page, &pipeline->steps[i]);
    put_writers(page, pipeline);
}

bool check_explain(const struct generation *generation, struct buffer *out)
{
    struct page page = {out, true};

    for (size_t i = 0; i < generation->pipeline_count; i++)
        put_pipeline(&page, &generation->pipelines[i]);
    return page.good;
}
